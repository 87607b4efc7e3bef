"""The report of an evaluation: one HTML file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from nextword.results.records import EvaluationResults, Wins
from nextword.results.report import formats, terminal
from nextword.results.report.columns import of_measures
from nextword.results.report.evaluation_table import (
    HUMAN,
    Test,
    measure_table,
    note_on_tests,
    notes,
    paired_rows,
    undefined,
)
from nextword.results.report.template import style, template


def render_evaluation(results: EvaluationResults) -> str:
    """Render the report of an evaluation as HTML."""
    names = [system.name for system in results.systems]
    title = names[0] if len(names) == 1 else f"{len(names)} systems"
    files = [file for system in results.systems for file in system.files]
    return template("evaluation.html.j2").render(
        style=style(),
        results=results,
        title=title,
        table=measure_table(results),
        names=names,
        samples=sorted({file.samples for file in files}),
        several=any(len(system.files) > 1 for system in results.systems),
        glossary=of_measures(results.measures),
        tests=paired_rows(results),
        tests_note=note_on_tests(results),
        undefined=undefined(results),
        notes=notes(results),
        votes={place.name: votes(results.wins, place.name) for place in results.wins.ranking} if results.wins else {},
        titles={key: measure.title for key, measure in results.measures.items()},
        environment=formats.pairs(results.environment.model_dump(exclude_defaults=True)),
        settings=json.dumps(results.settings, ensure_ascii=False, indent=2),
    )


# -- An evaluation in the terminal.

MOST_DIFFERENCES = 12
"""Maximum number of paired differences in the terminal."""
LONGEST_UNIT = 28
"""Maximum characters of a unit in the terminal."""


def evaluation_tables(results: EvaluationResults) -> list[RenderableType]:
    """Return tables for the terminal: values, ranking and significant differences. Notes are below them."""
    tables: list[RenderableType] = [_values(results)]
    if results.wins is not None and len(results.systems) > 1:
        tables.append(_ranking(results.wins))
    clear = sorted((test for test in paired_rows(results) if test.significant), key=lambda test: not test.better)
    if clear:
        tables.append(_differences(clear[:MOST_DIFFERENCES]))
    ranked = [f"ranked by wins in {', '.join(results.wins.measures)}"] if results.wins is not None else []
    lacking = [f"{name}: no {key}: {why}" for name, _, found in undefined(results) for key, why in found.items()]
    told = [*_plain_text(results), *ranked, *lacking, *notes(results), *_left_out(results)]
    told.append("intervals: see the report")
    if results.tests:
        shown = f", {MOST_DIFFERENCES} of them are shown, the report has all" if len(clear) > MOST_DIFFERENCES else ""
        told.append(
            f"{len(clear)} of {len(results.tests)} paired differences are significant after Holm's correction{shown}"
        )
    elif results.untested:
        told.append(f"no paired tests: {results.untested}")
    return [*tables, Text("\n".join(told), style="dim")]


def _values(results: EvaluationResults) -> Table:
    samples = {file.samples for system in results.systems for file in system.files}
    counted = " to ".join(str(count) for count in sorted({min(samples), max(samples)}))
    several = any(len(system.files) > 1 for system in results.systems)
    measured = measure_table(results)
    caption = ["* best"] if measured.has_best else []
    caption += ["\N{RIGHTWARDS ARROW} the closer to human the better"] if len(results.systems) > 1 else []
    caption += ["mean over seeds"] if several else []
    title = f"{counted} {'sample' if counted == '1' else 'samples'}, {results.unit}"
    systems = [Column(Text(system.name), justify="right", overflow="fold") for system in results.systems]
    human = terminal.right(HUMAN) if results.human is not None else []
    names = [Column("measure", no_wrap=True), Column("", no_wrap=True)]
    table = terminal.framed(
        title,
        [*names, *systems, *human, Column("unit", style="dim", overflow="fold")],
        caption="; ".join(caption) or None,
    )
    for block in measured.blocks:
        table.add_section()
        for row in block.rows:
            (unit,) = row.below
            unit = unit if len(unit) <= LONGEST_UNIT else unit.partition(" ")[0]
            cells = [terminal.marked(cell) for cell in row.cells[: len(systems)]]
            people = [Text(cell.text) for cell in row.cells[len(systems) :]]
            table.add_row(Text(row.label), row.arrow, *cells, *people, Text(unit))
    return table


def _differences(tests: list[Test]) -> Table:
    rows = [
        (
            Text(one.title),
            Text(f"{one.first} \N{MINUS SIGN} {one.second}"),
            one.difference,
            one.interval,
            Text(one.better),
        )
        for one in tests
    ]
    headers = ["measure", "systems", *terminal.right("difference", "interval"), "better"]
    return terminal.framed("Significant differences", headers, rows)


def _ranking(wins: Wins) -> Table:
    rows = []
    for place in wins.ranking:
        rows.append((str(place.rank), Text(place.name), str(place.wins), str(place.losses), votes(wins, place.name)))
    headers = [*terminal.right("rank"), "system", *terminal.right("wins", "losses", "votes")]
    caption = "one vote per metric, even if a difference may be due to chance"
    return terminal.framed("Ranking by wins", headers, rows, caption)


def votes(wins: Wins, name: str) -> str:
    """Count the wins of system ``name`` over all metrics and opponents, such as "8 of 15", where 15 includes ties."""
    fought = [duel for duel in wins.duels if name in (duel.first, duel.second)]
    won = sum(duel.won if duel.first == name else duel.lost for duel in fought)
    return f"{won} of {sum(duel.won + duel.lost + duel.tied for duel in fought)}"


def _plain_text(results: EvaluationResults) -> Iterator[str]:
    files = [file for system in results.systems for file in system.files]
    for cut, meaning in (("lines", "one text per line"), ("blocks", "a text between blank lines")):
        names = [file.file for file in files if file.plain_text == cut]
        if names:
            yield f"plain text, {meaning}: {', '.join(names)} (otherwise: --set plain_text=lines or blocks)"


def _left_out(results: EvaluationResults) -> Iterator[str]:
    """Lines about metrics that were not computed. Missing fields are in one line, other reasons in full."""
    lacking = [name for name, why in results.left_out.items() if name != HUMAN and why.startswith("no ")]
    if lacking:
        yield f"not computed, because the samples lack fields: {', '.join(lacking)}"
    for name, reason in results.left_out.items():
        if name == HUMAN and reason.startswith("no "):
            yield f"{name}: {reason}"
        elif name not in lacking:
            yield f"{name}: not measured, {reason.removeprefix(f'{name}: ')}"
