"""Writes a survey to a folder: files for judges in a subfolder, and outside it the key with the texts' systems."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from nextword.evaluation.survey.make_survey import MadeSurvey
from nextword.results.records import write_atomically
from nextword.results.records.survey_files import Passage, Survey
from nextword.results.report.survey_page import judge_page, mturk_item, mturk_layout
from nextword.runtime.resumable import expect_same

SURVEY, KEY = "survey.json", "key.json"
FOR_JUDGES = "for-judges"
"""Subfolder with all files for judges."""


def write_survey(made: MadeSurvey, folder: Path) -> list[Path]:
    """Write the survey and its key into a folder, which is created if missing, and return the files' paths.

    Raises:
        ValueError: If the folder has another survey.
    """
    held = folder / SURVEY
    if held.exists():
        expect_same(folder, "survey", {"id": Survey.load(held).id}, {"id": made.survey.id})
    given = folder / FOR_JUDGES
    files = {
        given / "page.html": judge_page(made.survey),
        given / "mturk" / "items.csv": mturk_csv(made.survey),
        given / "mturk" / "layout.html": mturk_layout(made.survey),
        given / "label-studio" / "tasks.json": label_studio_tasks(made.survey),
        given / "label-studio" / "config.xml": label_studio_config(made.survey),
        given / "prolific" / "links.csv": prolific_links(made.survey, made.page_url),
    }
    for path, text in files.items():
        write_atomically(path, text)
    made.survey.save(held)
    made.key.save(folder / KEY)
    return [held, folder / KEY, *files]


# -- Label Studio: a task for each unit, and the configuration of its questions.

MARKS = "marks"
"""Name of the control for marking words."""
TEXT = "text"
"""Name of the judged text."""
NEAR = "near"
"""Name of the text with the document sentences that are most similar to the judged text."""


def label_studio_tasks(survey: Survey) -> str:
    """Label Studio tasks as JSON, one per unit. ``context`` is the text to read first, and ``text`` is the judged text.

    If the survey shows document sentences near the judged texts, they are in ``near``.
    """
    near = _has_near(survey)
    tasks = [
        {
            "data": {
                "survey": survey.id,
                "item": item.id,
                "unit": unit.id,
                "digest": survey.digests[item.id],
                "context": _written(item.passages),
                TEXT: _written(unit.texts),
            }
            # one line for each sentence, in the order of the document
            | ({NEAR: "\n".join(item.passages[0].lines[place] for place in sorted(unit.near))} if near else {})
        }
        for item in survey.items
        for unit in item.units
    ]
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def label_studio_config(survey: Survey) -> str:
    """The Label Studio interface for ``survey``, as XML. Markup in texts is escaped."""
    instructions = " ".join(f"{survey.consent}\n\n{survey.instructions}".split())
    parts = [
        f"  <Header value={quoteattr(survey.title)} />",
        f'  <Header size="5" value={quoteattr(instructions)} />',
        '  <Text name="context" value="$context" />',
    ]
    if _has_near(survey):
        parts.append('  <Header size="4" value="Nearest to the text below:" />')
        parts.append(f'  <Text name="{NEAR}" value="${NEAR}" />')
    if survey.marking is not None:
        label = quoteattr(survey.marking.text)
        parts.append(f'  <Labels name="{MARKS}" toName="{TEXT}"><Label value={label} /></Labels>')
    parts.append(f'  <Text name="{TEXT}" value="${TEXT}" />')
    for question in survey.questions:
        parts.append(f'  <Header size="4" value={quoteattr(question.text)} />')
        parts.append(f'  <Choices name="{question.name}" toName="{TEXT}" choice="single-radio" required="true">')
        parts += [
            f"    <Choice alias={quoteattr(choice.value)} value={quoteattr(choice.label)} />"
            for choice in question.choices
        ]
        parts.append("  </Choices>")
    return "\n".join(["<View>", *parts, "</View>", ""])


def _has_near(survey: Survey) -> bool:
    return any(unit.near for item in survey.items for unit in item.units)


def _written(passages: list[Passage]) -> str:
    """Join passages into one text. A passage without a heading is unchanged, so that character offsets stay valid."""
    return "\n\n".join("\n".join([*([f"{one.title}:"] if one.title else []), *one.lines]) for one in passages)


# -- Mechanical Turk: a CSV with one item per line, for the layout of ``results/report/survey_page.py``.


def mturk_csv(survey: Survey) -> str:
    """Mechanical Turk CSV with columns ``survey``, ``item_id``, ``item``. Each row is one item, for several workers."""
    return _csv([("survey", "item_id", "item"), *((survey.id, item.id, mturk_item(item)) for item in survey.items)])


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# -- Prolific: a link for each form, and the number of places of the study for it.

PARAMETERS = "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"
"""Parameters of a page's address. Prolific inserts the participant's id, which the page uses as the judge's name."""


def prolific_links(survey: Survey, page_url: str) -> str:
    """Prolific CSV with one row per form: ``form``, ``link`` (to ``page_url``) and ``places`` (1 participant)."""
    joint = "&" if "?" in page_url else "?"
    links = ((form.id, f"{page_url}{joint}form={quote(form.id)}&{PARAMETERS}", 1) for form in survey.forms)
    return _csv([("form", "link", "places"), *links])
