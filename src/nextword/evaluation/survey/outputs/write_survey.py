"""A survey on disk: what judges receive in one folder, the key outside of it."""

from __future__ import annotations

from pathlib import Path

from nextword.evaluation.survey.make_survey import MadeSurvey
from nextword.evaluation.survey.outputs.label_studio import label_studio_config, label_studio_tasks
from nextword.evaluation.survey.outputs.mturk_csv import mturk_csv
from nextword.evaluation.survey.outputs.prolific_links import prolific_links
from nextword.results.records import write_atomically
from nextword.results.report.survey.judge_page import judge_page, mturk_layout
from nextword.settings.setting_names import named

SURVEY, KEY = "survey.json", "key.json"
FOR_JUDGES = "for-judges"
"""Folder of everything that may be given away."""


def write_survey(made: MadeSurvey, folder: Path) -> list[Path]:
    """Writes the survey and returns the files.

    Args:
        made: The survey and its key.
        folder: Made where missing.

    Raises:
        ValueError: The folder holds another survey.
    """
    held = folder / SURVEY
    if held.exists() and f'"id": "{made.survey.id}"' not in held.read_text(encoding="utf-8"):
        raise ValueError(f"{folder}: must be free (another survey is in it); give another {named('out')}")
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
