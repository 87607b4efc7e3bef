"""Mechanical Turk: a CSV with an item a line, for the layout of ``report/survey/judge_page.py``."""

from __future__ import annotations

import csv
import io

from nextword.results.records.survey_files import Survey
from nextword.results.report.survey.judge_page import mturk_item


def mturk_csv(survey: Survey) -> str:
    """Columns ``survey``, ``item_id`` and ``item``; each line is a task for as many workers as an item has judges."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["survey", "item_id", "item"])
    writer.writerows([survey.id, item.id, mturk_item(item)] for item in survey.items)
    return text.getvalue()
