"""``nextword report``: the page of a comparison or an evaluation, made again from its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors


@plain_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a comparison or an evaluation, or its results.json.")],
    out: Annotated[Path | None, typer.Option(help="File to write; report.html beside the results by default.")] = None,
) -> None:
    """Write report.html from results.json and print the table."""
    from rich.console import Console

    from nextword.records import EvaluationResults, Results, kind_of
    from nextword.report import evaluation_tables, results_table, write_report

    path = folder / "results.json" if folder.is_dir() else folder
    page = out or path.with_name("report.html")
    console = Console()
    if kind_of(path) == "evaluate":
        evaluation = EvaluationResults.load(path)
        write_report(evaluation, page)
        for table in evaluation_tables(evaluation):
            console.print(table)
    else:
        results = Results.load(path)
        write_report(results, page)
        console.print(results_table(results))
    console.print(f"Report: {page.resolve()}", soft_wrap=True, highlight=False, markup=False)
