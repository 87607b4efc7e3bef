"""The report of a comparison: one HTML file that needs no network."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup

from nextword.results.records import (
    EvaluationResults,
    ExamplePrediction,
    Results,
    write_atomically,
)
from nextword.results.report import formats
from nextword.results.report.columns import of_metrics, of_texts
from nextword.results.report.comparison import figures, texts_page
from nextword.results.report.comparison.main_table import Sweep, sweep
from nextword.results.report.comparison.method_tables import (
    cost_table,
    every_seed,
    finding,
    main_table,
    parts,
    subset_table,
)
from nextword.results.report.comparison.methods import ReportedMethod, failures, methods
from nextword.results.report.comparison.texts_page import heads, legend, readings, ways
from nextword.results.report.evaluation_page import render_evaluation
from nextword.results.report.template import style, template
from nextword.runtime.optional_libraries import install, missing

logger = logging.getLogger(__name__)

INSIDE = "inspect.html"
"""File name of a page that shows a model's predictions for one prompt. The quickstart writes it next to the report."""

SHORT = 48
"""Maximum length of a value in the introduction. Longer values, such as checksums, are in the tables at the end."""

INTERVALS = "Thin lines are 95 % intervals"

STEERING = "The line is at zero: the auxiliary text has no effect."

OPENING_DATA = ("train", "validation", "test", "leak")
"""Prefixes of the data fields that the introduction shows. The tables at the end have all fields."""


@dataclass(frozen=True)
class Figure:
    """A section with a figure."""

    anchor: str
    title: str
    text: str
    svg: Markup


def write_report(results: Results | EvaluationResults, path: str | os.PathLike[str]) -> None:
    """Write ``results`` as one HTML page that loads no scripts, fonts or images from elsewhere."""
    inside = Path(path).with_name(INSIDE)
    if isinstance(results, Results):
        page = render(results, INSIDE if inside.exists() else None)
    else:
        page = render_evaluation(results)
    write_atomically(path, page)


def render(results: Results, inside: str | None = None) -> str:
    """Render the page, with a link to ``inside``, a page of predictions for one prompt (None: no link)."""
    page = template("page.html.j2")
    found = methods(results)
    table, subsets = main_table(results), subset_table(results)
    predicted = [word for one in found for example in one.runs[0].evaluation.examples for word in example.top]
    written, read = ways(results, found), readings(results)
    return page.render(
        style=style(),
        results=results,
        summary=_summary(results, found),
        finding=finding(results),
        inside=inside,
        facts=_facts(results),
        table=table,
        tables={"Results": parts(table), "Results by kind of case": parts(subsets), "Cost": parts(cost_table(results))},
        every_seed=every_seed(results),
        glossary=of_metrics([*table.columns, *subsets.columns]),
        failures=failures(results),
        figures=_figures(found, results),
        examples=examples(found),
        sources=list(dict.fromkeys(source for word in predicted for source in word.sources)),
        probability=formats.probability,
        first_seeds=formats.listing([str(seed) for seed in sorted({method.runs[0].seed for method in found})] or [""]),
        methods=found,
        written=written,
        text_glossary=of_texts(column for way in written for column in way.sheet.table.columns),
        readings=read,
        legend=legend(read),
        mark=texts_page.mark,
        styles={method.label: method.style for method in found},
        heads=heads(found),
        tuned=[run for method in found for run in method.runs if run.evaluation.tuned],
        pairs=formats.pairs,
        plain=formats.plain,
        details=_details(results),
        settings=_settings(results, found),
        several=any(len(method.runs) > 1 for method in found),
    )


def _summary(results: Results, found: Sequence[ReportedMethod]) -> str:
    count = len(found)
    environment = results.environment
    what = "One next-word method was" if count == 1 else f"{count} next-word methods were"
    trained = sum(method.trained for method in found)
    done = "trained and measured" if trained == count else "measured"
    seeds = f"{len(results.seeds)} seeds" if len(results.seeds) > 1 else "one seed"
    same = f"{_together(results, found)}. " if count > 1 else ""
    return (
        f"{what} {done} on the task “{results.task}” (version {results.task_version}) with {seeds}. "
        f"{same}{_stored(found)}"
        f"Made with nextword {environment.nextword} on {environment.date[:10]}."
    )


def _stored(found: Sequence[ReportedMethod]) -> str:
    """A sentence about methods that were trained from stored states, with the precision of the states."""
    ways: dict[str, list[str]] = {}
    for method in found:
        states = method.runs[0].settings.get("states")
        if isinstance(states, dict):
            ways.setdefault(f"{states['precision']}", []).append(method.label)
    return "".join(
        f"Only the head was trained, from stored states in {precision}: {formats.listing(labels)}. "
        for precision, labels in ways.items()
    )


def _together(results: Results, found: Sequence[ReportedMethod]) -> str:
    """A sentence about what all methods have in common."""
    trained = sum(method.trained for method in found)
    methods = [run.settings.get("method") for run in results.runs]
    scratch = any(isinstance(method, dict) and method.get("from_scratch") for method in methods)
    if 0 < trained < len(found):
        kept = f"{trained} of them were trained, with the same batches"
        return kept if scratch else f"All of them started from the same model; {kept}"
    if not trained:
        return "None of them was trained" if scratch else "None of them was trained; all use the same model"
    return f"All of them {'' if scratch else 'started from the same model and '}saw the same batches"


def _facts(results: Results) -> list[tuple[str, list[tuple[str, str]]]]:
    sizes = {name: thing for name, thing in results.data.items() if name.startswith(OPENING_DATA)}
    groups = [("Data", formats.pairs(sizes or results.data)), ("Start", formats.pairs(results.start))]
    told = [(title, [pair for pair in pairs if len(pair[1]) <= SHORT]) for title, pairs in groups]
    return [group for group in told if group[1]] + [("Seeds", [("", ", ".join(map(str, results.seeds)))])]


def _figures(found: Sequence[ReportedMethod], results: Results) -> list[Figure]:
    if missing(["matplotlib"]):
        logger.warning("report: figures are left out, matplotlib is not installed (%s)", install("experiments"))
        return []
    bars = INTERVALS + (", one for each seed." if len(results.seeds) > 1 else ".")
    lines = " Every seed has its own line." if len(results.seeds) > 1 else ""
    sections = (
        ("accuracy", "Accuracy", bars, figures.accuracy),
        ("likelihood", "Likelihood", bars + " The axes do not start at zero.", figures.likelihood),
        ("steering", "Steering", f"{STEERING} {bars}", figures.steering),
        (
            "spectrum",
            "Rank spectrum",
            f"A line that drops early shows a rank bottleneck: the head can distinguish few contexts.{lines}",
            figures.spectrum,
        ),
        (
            "curves",
            "Learning curves",
            f"Each method's training loss is that of its own objective, so compare shapes and not levels.{lines}",
            figures.curves,
        ),
    )
    of_runs = [_figure(anchor, title, text, partial(draw, found)) for anchor, title, text, draw in sections]
    return [figure for figure in (*_text_figures(found, results), *of_runs) if figure is not None]


def _figure(anchor: str, title: str, text: str, draw: Callable[[], str | None]) -> Figure | None:
    svg = draw()
    # figures are the only HTML that does not come from the template, so Markup is used only here
    return None if svg is None else Figure(anchor, title, text, Markup(svg))


def _text_figures(found: Sequence[ReportedMethod], results: Results) -> list[Figure | None]:
    ends = "Thin lines reach from the lowest to the highest seed" if len(results.seeds) > 1 else INTERVALS
    unit = formats.listing(texts_page.units_of_groups(results))
    text = f"Frequency of the tokens of the texts, in {unit}. The dotted line is the human share. {ends}."
    groups = _figure("groups", "Frequency groups", text, partial(texts_page.frequency_groups, results, found))
    classes = sweep(results, found)
    return [groups, _sweep_figure(classes, ends) if classes is not None else None]


def _sweep_figure(classes: Sweep, ends: str) -> Figure | None:
    written = f" Texts: {classes.decoding}." if classes.decoding else ""
    chosen = " A star marks the number that MefMax chose." if classes.chosen else ""
    left_out = f" Not drawn, because it coincides with another point: {formats.listing(classes.left_out)}."
    text = (
        "Heads with frequency classes, one line per division of the tokens. Horizontal lines: methods without "
        f"classes, and the human value if it is the goal.{chosen}{written} {ends}. The axes do not start at "
        f"zero.{left_out if classes.left_out else ''}"
    )
    return _figure("classes", "Number of classes", text, partial(texts_page.class_sweep, classes))


def _details(results: Results) -> list[tuple[str, list[tuple[str, str]]]]:
    task = {"task": results.task, "version": results.task_version, **results.data}
    environment = results.environment.model_dump(exclude_defaults=True)
    groups = [("Data", formats.pairs(task)), ("Start", formats.pairs(results.start))]
    return [group for group in [*groups, ("Environment", formats.pairs(environment))] if group[1]]


def _settings(results: Results, found: Sequence[ReportedMethod]) -> list[tuple[str, str]]:
    runs = [(f"{method.label}, seed {run.seed}", run.settings) for method in found for run in method.runs]
    groups = [("The comparison", results.settings), *runs]
    return [(title, json.dumps(content, ensure_ascii=False, indent=2)) for title, content in groups if content]


# -- Example predictions by prompt, with the methods next to each other.


@dataclass(frozen=True)
class ExamplePrompt:
    """One prompt with the predictions of all methods."""

    text: str
    expected: tuple[str, ...]
    answers: dict[str, list[tuple[ReportedMethod, ExamplePrediction]]]
    """Predictions of the methods, by setting."""

    @property
    def longest(self) -> float:
        """The largest probability of the prompt's predictions, which sets the scale of all its bars."""
        said = [example for answers in self.answers.values() for _, example in answers]
        return max((word.probability for example in said for word in example.top), default=0.0) or 1.0


def examples(methods: Sequence[ReportedMethod]) -> list[ExamplePrompt]:
    """Return the example prompts with the predictions of each method's first seed; empty if none were recorded."""
    prompts: dict[tuple[str, tuple[str, ...]], ExamplePrompt] = {}
    for method in methods:
        for example in method.runs[0].evaluation.examples:
            key = (example.prompt, tuple(example.expected))
            answers = prompts.setdefault(key, ExamplePrompt(*key, {})).answers
            answers.setdefault(formats.setting(example.setting), []).append((method, example))
    return list(prompts.values())
