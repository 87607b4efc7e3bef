"""Label Studio: a task for each unit, and the configuration that asks the questions about it."""

from __future__ import annotations

import json
from xml.sax.saxutils import quoteattr

from nextword.results.records.survey_files import Passage, Survey, SurveyItem, SurveyUnit

MARKS = "marks"
"""Name of the control with which words are marked."""
TEXT = "text"
"""Name of the text that is judged."""
NEAR = "near"
"""Name of the sentences of a document that are nearest to it."""


def label_studio_tasks(survey: Survey) -> str:
    """Tasks to import: JSON, one a unit, with what is read as ``context`` and what is judged as ``text``.

    Where sentences of a document belong to a unit, they stand in ``near``.
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
            | ({NEAR: _near(item, unit)} if near else {})
        }
        for item in survey.items
        for unit in item.units
    ]
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def label_studio_config(survey: Survey) -> str:
    """The labelling interface: XML. Texts are shown as text, whatever markup they hold."""
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


def _near(item: SurveyItem, unit: SurveyUnit) -> str:
    """A line for each sentence, in the order of the document."""
    return "\n".join(item.passages[0].lines[place] for place in sorted(unit.near))


def _written(passages: list[Passage]) -> str:
    """Passages as one text; one without a heading as it is, so that places in it are places in the passage."""
    return "\n\n".join("\n".join([*([f"{one.title}:"] if one.title else []), *one.lines]) for one in passages)
