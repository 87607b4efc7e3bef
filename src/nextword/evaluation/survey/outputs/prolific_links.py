"""Prolific: a link for each form, with the places of a study that lead there."""

from __future__ import annotations

import csv
import io
from urllib.parse import quote

from nextword.results.records.survey_files import Survey

PARAMETERS = "PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"
"""Prolific puts the participant's number in; the page takes it as the judge's name."""


def prolific_links(survey: Survey, page_url: str) -> str:
    """A CSV with ``form``, ``link`` and ``places``: one person for each form.

    Args:
        survey: Whose forms are filled in.
        page_url: Where page.html lies.

    >>> PARAMETERS.startswith("PROLIFIC_PID={{%PROLIFIC_PID%}}")
    True
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["form", "link", "places"])
    joint = "&" if "?" in page_url else "?"
    writer.writerows([form.id, f"{page_url}{joint}form={quote(form.id)}&{PARAMETERS}", 1] for form in survey.forms)
    return text.getvalue()
