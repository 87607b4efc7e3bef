"""``nextword check``: is a saved model's distribution a distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nextword.cli.parts.errors import plain_errors

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nextword.checking.findings import CheckReport

FAILED = 1


@plain_errors
def check(
    path: Annotated[str, typer.Argument(help="Folder that save_pretrained wrote, or a name on the hub.")],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what every property means.")] = False,
) -> None:
    """Check a saved model: sums to one, sees no future, same with and without cache, finite.

    Ends with code 1 where a check fails.
    """
    from nextword.pretrained import model_location

    location = model_location(path)

    from rich.console import Console

    import nextword as nw
    from nextword.cli.parts.run_and_show import quiet_libraries

    quiet_libraries()
    result = nw.check(nw.load(location))
    Console().print(result.table() if verbose else _short(result))
    if not result.passed:
        raise typer.Exit(FAILED)


def _short(result: CheckReport) -> RenderableType:
    """One line a property, for which a narrow terminal has room; below it, in words, what failed or was not checked."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(result.title), box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("property", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for heading in ("worst", "tolerance"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in result.rows:
        colour = "dim" if row.worst is None else "green" if row.passed else "bold red"
        worst = "" if row.worst is None else f"{row.worst:.2g}"
        table.add_row(Text(row.name), Text(row.verdict, style=colour), worst, f"{row.tolerance:.2g}")
    failed = [Text(f"{row.explain()} Passed, it means: {row.meaning}.", style="red") for row in result.failures]
    left_out = [Text(f"{row.name}: not checked, {row.where}", style="dim") for row in result.rows if row.worst is None]
    return Group(table, *failed, *left_out)
