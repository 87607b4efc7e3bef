"""``nextword report``: the page of a comparison, made again from its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.errors import plain_errors


@plain_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a comparison, or its results.json.")],
    out: Annotated[Path | None, typer.Option(help="File to write; report.html beside the results by default.")] = None,
) -> None:
    """Write report.html from results.json and print the table."""
    from rich.console import Console

    from nextword.records import Results
    from nextword.report import results_table, write_report

    path = folder / "results.json" if folder.is_dir() else folder
    results = Results.load(path)
    page = out or path.with_name("report.html")
    write_report(results, page)
    console = Console()
    console.print(results_table(results))
    console.print(f"Report: {page.resolve()}", soft_wrap=True, highlight=False, markup=False)
