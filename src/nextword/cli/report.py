"""``nextword report``: rewrite the page of a comparison, evaluation, survey or reproduced table from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors


@plain_errors
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder with the results.json of a comparison, an evaluation or a survey; this file itself; or the "
            "JSON record of a reproduced table.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; by default in the folder of the results.")
    ] = None,
) -> None:
    """Write report.html from results.json, or a reproduced table's page from its JSON record, and print the table."""
    from rich.console import Console

    from nextword.cli.parts.run_and_show import print_line
    from nextword.results.records import EvaluationResults, Results, kind_of
    from nextword.results.records.reproduced_table import ReproducedTable
    from nextword.results.records.survey_files import SurveyResults
    from nextword.results.report import (
        evaluation_tables,
        reproduced_table,
        results_table,
        survey_tables,
        write_report,
        write_reproduced_tables,
        write_survey_report,
    )
    from nextword.runtime.corpora.output_files import expect_inputs_kept

    path = folder / "results.json" if folder.is_dir() else folder
    kind = kind_of(path)
    page = out or (path.with_suffix(".html") if kind == "reproduce" else path.with_name("report.html"))
    expect_inputs_kept({"--out": [page]}, [path])
    console = Console()
    if kind == "reproduce":
        reproduced = ReproducedTable.load(path)
        write_reproduced_tables([reproduced], page, root="../../../")
        tables = [reproduced_table(reproduced)]
    elif kind == "evaluate":
        evaluation = EvaluationResults.load(path)
        write_report(evaluation, page)
        tables = evaluation_tables(evaluation)
    elif kind == "survey-results":
        survey = SurveyResults.load(path)
        write_survey_report(survey, page)
        tables = survey_tables(survey)
    else:
        results = Results.load(path)
        write_report(results, page)
        tables = [results_table(results)]
    for table in tables:
        console.print(table)
    print_line(console, f"Report: {page.resolve()}")
