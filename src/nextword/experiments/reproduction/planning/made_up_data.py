"""Text in place of data sets that are missing, so that trainings on them can be planned and models built."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.experiments.comparison.comparison_settings import CompareConfig, build_task
from nextword.experiments.reproduction.data_sets import known_data_sets, names_of

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task

LINES = 1000
"""Of each made-up text."""


def made_up_task(config: CompareConfig, data: Mapping[str, Any]) -> Task | None:
    """The task with made-up texts; ``None``: its data is no plain text, or it wants more than these say.

    Args:
        config: The comparison.
        data: Settings that are paths of data, as experiments name them.
    """
    files = {name: known_data_sets()[name].has for name in (one.partition("/")[0] for one in names_of(data.values()))}
    if any(not file.endswith(".txt") for has in files.values() for file in has):
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, has in files.items():
            (Path(folder) / name).mkdir()
            for file in has:
                text = "".join(f"a line of {file} with number {line}\n" for line in range(LINES))
                (Path(folder) / name / file).write_text(text)
        settings = dict(config.task_settings)
        for key, wanted in data.items():
            settings[key.removeprefix("task.")] = _inside(folder, wanted)
        try:
            return build_task(config.model_copy(update={"task_settings": settings}))
        except ValueError:
            return None


def _inside(folder: str, wanted: Any) -> Any:
    return [_inside(folder, one) for one in wanted] if isinstance(wanted, list) else f"{folder}/{wanted}"
