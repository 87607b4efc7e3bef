"""``nextword attach``: another head on a finished model, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.completion import complete_head
from nextword.cli.parts.errors import plain_errors


@plain_errors
def attach(
    model: Annotated[str, typer.Argument(help="Folder, GGUF file or name on the hub of a model; it stays as it is.")],
    head: Annotated[
        str,
        typer.Option(
            help="Head, such as cache or knn:store=store ('nextword list heads').", autocompletion=complete_head
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the model with that head.")],
    held: Annotated[
        list[str] | None,
        typer.Option(help="Held-out text, on which temperature and weight of a cache or of knn are chosen."),
    ] = None,
    field: Annotated[str | None, typer.Option(help="Column of tables with the text; else text or target.")] = None,
    split: Annotated[str, typer.Option(help="Part that is read of a folder or data set.")] = "validation",
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens of the held-out text are read.")] = 10_000,
) -> None:
    """Put another head on a finished model without training it.

    nextword attach runs/model --head knn:store=store --held valid.txt --out runs/retrieving
    """
    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries, this_command
    from nextword.finetuning.added_head import add_head
    from nextword.scoring.measurement.data_files import read_texts
    from nextword.scoring.opened_model import open_model

    quiet_libraries()
    texts = read_texts(held, {} if field is None else {"text": field}, split) if held else None
    with interruptible("nothing was written; the same command begins again", goes_on=False):
        added = add_head(open_model(model), head, out, texts, tokens=tokens, command=this_command())
    if added.chosen:
        typer.echo("Chosen: " + ", ".join(f"{name}={_shown(value)}" for name, value in added.chosen.items()))
    typer.echo(f"{added.spec}: {out.resolve()}")


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
