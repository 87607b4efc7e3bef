"""The page of an evaluation: one HTML file that needs no network."""

from __future__ import annotations

import json

from nextword.results.records import EvaluationResults
from nextword.results.report.evaluation.evaluation_table import grouped, note_on_tests, notes, paired_rows, undefined
from nextword.results.report.parts import formats
from nextword.results.report.parts.glossary import of_measures
from nextword.results.report.parts.template import style, template


def render_evaluation(results: EvaluationResults) -> str:
    """The page as text."""
    groups = grouped(results)
    names = [system.name for system in results.systems]
    title = names[0] if len(names) == 1 else f"{len(names)} systems"
    files = [file for system in results.systems for file in system.files]
    return template("evaluation.html.j2").render(
        style=style(),
        results=results,
        title=title,
        groups=groups,
        names=names,
        samples=sorted({file.samples for file in files}),
        several=any(len(system.files) > 1 for system in results.systems),
        glossary=of_measures(results.measures),
        tests=paired_rows(results),
        tests_note=note_on_tests(results),
        undefined=undefined(results),
        notes=notes(results),
        titles={key: measure.title for key, measure in results.measures.items()},
        environment=[
            (formats.setting(k), formats.plain(v))
            for k, v in results.environment.model_dump(exclude_defaults=True).items()
        ],
        settings=json.dumps(results.settings, ensure_ascii=False, indent=2),
    )
