"""The page of what people said, beside that of an evaluation and with the same looks."""

from __future__ import annotations

import os

from nextword.results.records import write_atomically
from nextword.results.records.survey_results import SurveyResults
from nextword.results.report.evaluation.evaluation_table import grouped, note_on_tests, paired_rows
from nextword.results.report.parts import formats
from nextword.results.report.parts.glossary import of_measures
from nextword.results.report.parts.template import style, template
from nextword.results.report.survey.survey_rows import agreements, correlated, share


def render_survey(results: SurveyResults) -> str:
    """The page as text."""
    judged = results.judged
    return template("survey/results.html.j2").render(
        style=style(),
        results=results,
        judged=judged,
        names=[system.name for system in judged.systems],
        groups=grouped(judged),
        glossary=of_measures(judged.measures),
        duels=[(one, share(one.win), share(one.tie), share(one.lose)) for one in results.duels],
        tests=paired_rows(judged),
        tests_note=note_on_tests(judged),
        agreement=list(agreements(results)),
        marked={name: share(value) for name, value in results.marked.items()},
        correlations=list(correlated(results)),
        environment=[
            (formats.setting(name), formats.plain(value))
            for name, value in judged.environment.model_dump(exclude_defaults=True).items()
        ],
    )


def write_survey_report(results: SurveyResults, path: str | os.PathLike[str]) -> None:
    """Writes the page: one file without a script, a font or a picture from elsewhere.

    Args:
        results: What people said.
        path: The file, usually report.html beside results.json. Replaced as a whole.
    """
    write_atomically(path, render_survey(results))
