"""``nextword check``: is a saved model's distribution a distribution."""

from __future__ import annotations

from typing import Annotated

import typer

from nextword.cli.errors import plain_errors

FAILED = 1


@plain_errors
def check(
    path: Annotated[str, typer.Argument(help="Folder that save_pretrained wrote, or a name on the hub.")],
) -> None:
    """Check a saved model: sums to one, sees no future, same with and without cache, finite.

    Ends with code 1 where a check fails.
    """
    from rich.console import Console

    import nextword as nw

    result = nw.check(nw.load(path))
    Console().print(result.table())
    if not result.passed:
        raise typer.Exit(FAILED)
