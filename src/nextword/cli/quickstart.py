"""``nextword quickstart``: a small comparison that needs no data, no model and no network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors

NEXT = """
Next:
  nextword compare --task ambiguous --head softmax --head ps --out runs/ps      another head on this task
  nextword train --data book.txt --model small --head cache --out runs/book     a model of a text of yours
  nextword list heads                                                           all heads"""
"""What a reader may try after the quickstart."""


@plain_errors
def quickstart(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Changes to the recipe, for instance training.steps=50."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything that is written.")] = Path("quickstart"),
) -> None:
    """Compare softmax with heads that can do more, on data made on the spot. About five minutes on two cores.

    The recipe is built in; 'nextword compare quickstart' runs the same.
    """
    from nextword.cli.parts.prompt_page import write_prompt_page
    from nextword.cli.parts.run_and_show import run_comparison
    from nextword.comparison.recipe import configured, read

    config = configured(read("quickstart"), overrides or [])
    page = write_prompt_page(config, run_comparison(config, out), out)
    if page is not None:
        typer.echo(f"One prompt, word by word: {page.resolve()}")
    typer.echo(NEXT)
