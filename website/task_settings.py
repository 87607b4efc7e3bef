"""Writes the tables of settings on the pages of tasks from the settings classes: run it after a change of a setting.

    python website/task_settings.py

A page has the marks ``<!-- settings -->`` and ``<!-- end -->``; what is between them is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from nextword.experiments.tasks import registry
from nextword.settings.config import field_docstrings

PAGES = Path(__file__).resolve().parent.parent / "docs" / "tasks"
PART = re.compile(r"(<!-- settings -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(name: str, page: str) -> str:
    """The page of a task with the table of today."""
    task: Any = registry.get(name)
    table = "\n".join(["| key | default | meaning |", "| --- | --- | --- |", *rows(task.Config, "task.")])
    training = ", ".join(f"`training.{key}={shown(value)}`" for key, value in task.training_defaults.items())
    part = f"\n{table}\n\nTraining from the small initial checkpoint: {training}.\n"
    return PART.sub(lambda found: f"{found[1]}{part}{found[2]}", page)


def rows(model: type[BaseModel], prefix: str, given: BaseModel | None = None) -> Iterator[str]:
    """A row for each setting, those of a part after the name of the part; ``given`` has the defaults of a part."""
    for name, field in model.model_fields.items():
        default = field.default if given is None else getattr(given, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from rows(field.annotation, f"{prefix}{name}.", default)
            continue
        meaning = " ".join(field_docstrings(model)[name].split()).replace("``", "`").replace("|", "\\|")
        value = "required" if default is PydanticUndefined else "none" if default is None else f"`{shown(default)}`"
        yield f"| `{prefix}{name}` | {value} | {re.sub(r'None(?=[: ])', 'none', meaning)} |"


def shown(value: object) -> str:
    """A value as the command line takes it."""
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, list):
        return json.dumps([one if isinstance(one, str) else one.title.replace(" ", ":") for one in value])
    return json.dumps(value)


if __name__ == "__main__":
    for task_name in registry.names():
        path = PAGES / f"{task_name}.md"
        path.write_text(rewritten(task_name, path.read_text(encoding="utf-8")), encoding="utf-8")
