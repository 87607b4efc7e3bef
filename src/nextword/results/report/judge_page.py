"""What judges open: one HTML file that needs no network, and the layout of a task for Mechanical Turk."""

from __future__ import annotations

import base64
import json
from typing import Any

from markupsafe import Markup

from nextword.results.records.survey_files import Survey, SurveyItem
from nextword.results.report.inspection_page import content_policy, embedded
from nextword.results.report.template import packaged, switchable_variables, template

SHARED = ("trace/elements.js", "survey/items.js")
"""Scripts of both, in the order in which they use one another."""


def judge_page(survey: Survey) -> str:
    """The page of a survey, with all of its forms; the address says which (``page.html?form=3``).

    It keeps what was answered in the browser and hands it back as one file. It sends nothing, and without the survey's
    key it cannot show who wrote what.
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
    """The layout of a task: it shows the item of the column ``item``, which ``mturk_item`` writes."""
    style = Markup(switchable_variables() + packaged("survey/judge.css"))
    shared = survey.model_dump(mode="json", exclude={"items", "digests", "forms"})
    return template("survey/mturk.html.j2").render(
        style=style, script=_script("survey/mturk.js"), survey=_ascii(shared)
    )


def mturk_item(item: SurveyItem) -> str:
    """An item as one cell of a CSV.

    It is base64, because the platform puts cells into the layout as they are: no text in it can become markup.
    """
    return _ascii({"item": item.model_dump(mode="json"), "digest": item.digest})


def _script(own: str) -> Markup:
    return Markup('"use strict";\n' + "\n".join(packaged(name) for name in (*SHARED, own)))


def _ascii(content: Any) -> str:
    return base64.b64encode(json.dumps(content, ensure_ascii=False).encode()).decode()
