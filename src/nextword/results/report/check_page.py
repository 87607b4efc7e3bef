"""The report of a check: one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path

from nextword.results.records import write_atomically
from nextword.results.records.check_results import CheckResults
from nextword.results.report import formats
from nextword.results.report.template import style, template

JSON, PAGE = "check.json", "check.html"

VERDICTS = {
    0: "No fault was found.",
    1: "Faults were found.",
    2: "No fault was found, but not everything could be tested.",
}


def render_check(results: CheckResults) -> str:
    """Render the report of a check as HTML."""
    return template("check.html.j2").render(
        style=style(),
        results=results,
        verdict=VERDICTS[results.exit_code],
        environment=formats.pairs(results.environment.model_dump(exclude_defaults=True)),
    )


def write_check(results: CheckResults, folder: Path) -> None:
    """Write ``results`` and their page into ``folder``, which is created if missing. Older files are replaced."""
    results.save(folder / JSON)
    write_atomically(folder / PAGE, render_check(results))
