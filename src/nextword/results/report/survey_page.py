"""The report of a survey, and the page for judges."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from markupsafe import Markup
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from nextword.results.records import MetricValue, write_atomically
from nextword.results.records.survey_files import Survey, SurveyItem, SurveyResults
from nextword.results.report import formats, terminal
from nextword.results.report.columns import of_measures
from nextword.results.report.evaluation_table import measure_table, note_on_tests, paired_rows
from nextword.results.report.inspection_page import content_policy, embedded
from nextword.results.report.table import Cell
from nextword.results.report.template import packaged, style, switchable_variables, template


def render_survey(results: SurveyResults) -> str:
    """Render the report of a survey as HTML."""
    judged = results.judged
    return template("survey/results.html.j2").render(
        style=style(),
        results=results,
        judged=judged,
        names=[system.name for system in judged.systems],
        table=measure_table(judged),
        glossary=of_measures(judged.measures),
        duels=[(one, share(one.win), share(one.tie), share(one.lose)) for one in results.duels],
        tests=paired_rows(judged),
        tests_note=note_on_tests(judged),
        agreement=list(agreements(results)),
        marked={name: share(value) for name, value in results.marked.items()},
        correlations=list(correlated(results)),
        environment=formats.pairs(judged.environment.model_dump(exclude_defaults=True)),
    )


def write_survey_report(results: SurveyResults, path: str | os.PathLike[str]) -> None:
    """Write the report as one HTML file without scripts. It loads nothing from the network."""
    write_atomically(path, render_survey(results))


# -- The results of a survey, in the terminal.


def survey_tables(results: SurveyResults) -> list[RenderableType]:
    """Tables for the terminal: values, wins and losses, differences, agreement, and answers that were left out."""
    tables = [_values(results)]
    if results.duels:
        tables.append(_duels(results))
    if results.judged.tests:
        tables.append(_tests(results))
    tables.append(_agreement(results))
    counted = sum(one.counted for one in results.judges)
    told = [f"{counted} of {len(results.judges)} judges are valid", *results.left_out]
    if results.correlations:
        told.append(f"{len(results.correlations)} correlations with automatic measures: see the report")
    elif results.uncorrelated:
        told.append(f"no correlation with automatic measures: {results.uncorrelated}")
    return [*tables, Text("\n".join(told), style="dim")]


def _values(results: SurveyResults) -> Table:
    systems = [Column(Text(system.name), justify="right", overflow="fold") for system in results.judged.systems]
    rows: list[tuple[Any, ...]] = [
        (row.label, *(Text(_with_interval(cell)) for cell in row.cells), *row.below)
        for row in measure_table(results.judged).rows
    ]
    marked = [(Text(f"Marked words, {name}"), Text(_with_interval(share(one)))) for name, one in results.marked.items()]
    return _table(results.title, ["measure", *systems, Column("unit", style="dim")], [*rows, *marked])


def _table(title: str, headers: Iterable[Any], rows: Iterable[Iterable[Any]] = ()) -> Table:
    return terminal.framed(title, headers, rows, title_justify="left")


def _with_interval(one: Cell) -> str:
    return f"{one.text} ({one.interval})" if one.interval else one.text


def _duels(results: SurveyResults) -> Table:
    first, second = results.duels[0].first, results.duels[0].second
    rows = [
        (one.question, *(Text(_with_interval(share(part))) for part in (one.win, one.tie, one.lose)))
        for one in results.duels
    ]
    return _table(f"{first} against {second}, % of answers", ["question", *terminal.right("win", "tie", "lose")], rows)


def _tests(results: SurveyResults) -> Table:
    tests = paired_rows(results.judged)
    # no word is broken if there is space for all of them
    numbers = [
        Column(heading, justify="right", min_width=_longest_word(heading))
        for heading in ("value", "interval", "p bootstrap", "p permutation", "p Holm")
    ]
    measure = Column("measure", overflow="fold", min_width=min(12, _longest_word(*(one.title for one in tests))))
    table = _table("Differences", [measure, Column("systems", overflow="fold"), *numbers])
    for one in tests:
        names = Text(f"{one.first} \N{MINUS SIGN} {one.second}")
        table.add_row(one.title, names, one.difference, one.interval, one.p_bootstrap, one.p_permutation, one.p_holm)
    return table


def _longest_word(*texts: str) -> int:
    return max(len(word) for text in texts for word in text.split())


def _agreement(results: SurveyResults) -> Table:
    headers = ["question", *terminal.right("Krippendorff's alpha", "equal pairs, %", "units")]
    return _table("Agreement of judges", headers, agreements(results))


# -- The results of a survey as text, for rows of the page and of the terminal.

SHARE_DECIMALS = 1


def share(value: MetricValue) -> Cell:
    """Format a share as a percentage, with its interval."""
    ends = "" if value.interval is None else formats.interval(*map(_percent, value.interval))
    return Cell(_percent(value.value), interval=ends, below=(ends,))


def _percent(number: float) -> str:
    return formats.value(number, "share", SHARE_DECIMALS)


def agreements(results: SurveyResults) -> Iterator[tuple[str, str, str, str]]:
    """Yield rows: question, alpha for each scale, % of equal answer pairs, number of units with several answers."""
    for one in results.agreement:
        alphas = [
            f"{formats.NOTHING if value is None else f'{value:.2f}'} ({level})" for level, value in one.alpha.items()
        ]
        percent = formats.NOTHING if one.percent is None else _percent(one.percent)
        yield one.question, ", ".join(alphas), percent, formats.plain(one.units)


def correlated(results: SurveyResults) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Yield rows: human measure, automatic metric, Pearson, Spearman, Kendall, number of systems."""
    measures = results.judged.measures
    for one in results.correlations:
        people = measures[one.people]
        pearson, spearman, kendall = (
            formats.NOTHING if value is None else f"{value:z.2f}" for value in (one.pearson, one.spearman, one.kendall)
        )
        yield people.title, one.automatic, pearson, spearman, kendall, str(one.systems)


# -- The page that judges open, which is one HTML file that needs no network, and a layout for Mechanical Turk.

SHARED = ("trace/elements.js", "survey/items.js")
"""Scripts of both pages. A script comes after the scripts that it needs."""


def judge_page(survey: Survey) -> str:
    """Render the page of a survey with all forms. The URL selects the form (``page.html?form=3``).

    The page keeps the answers in the browser and saves them as one file. It sends nothing over the network. It does not
    contain the survey's key.
    """
    style = Markup(switchable_variables() + packaged("survey/judge.css"))
    script = _script("survey/judge.js")
    return template("survey/judge.html.j2").render(
        policy=content_policy(script, style),
        title=survey.title,
        style=style,
        script=script,
        survey=embedded(survey.model_dump(mode="json")),
    )


def mturk_layout(survey: Survey) -> str:
    """The Mechanical Turk layout. It shows the item in the CSV column ``item``, whose cells ``mturk_item`` makes."""
    style = Markup(switchable_variables() + packaged("survey/judge.css"))
    shared = survey.model_dump(mode="json", exclude={"items", "digests", "forms"})
    return template("survey/mturk.html.j2").render(
        style=style, script=_script("survey/mturk.js"), survey=_ascii(shared)
    )


def mturk_item(item: SurveyItem) -> str:
    """Write ``item`` as one cell of a CSV file for ``mturk_layout``.

    The cell is in base64, because Mechanical Turk inserts cells unescaped, so that text could become markup.
    """
    return _ascii({"item": item.model_dump(mode="json"), "digest": item.digest})


def _script(own: str) -> Markup:
    return Markup('"use strict";\n' + "\n".join(packaged(name) for name in (*SHARED, own)))


def _ascii(content: Any) -> str:
    return base64.b64encode(json.dumps(content, ensure_ascii=False).encode()).decode()
