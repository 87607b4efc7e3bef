"""Writes the tables of settings on pages of docs/ from the settings classes: run it after a change of a setting.

    python website/settings_tables.py

What is between ``<!-- settings: NAME -->`` and ``<!-- end -->`` is replaced. A name is that of a task or an objective.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from nextword import objectives
from nextword.experiments import tasks
from nextword.objectives.objective import SequenceConfig
from nextword.settings.config import field_docstrings

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(page for kind in ("tasks", "objectives") for page in (ROOT / "docs" / kind).glob("*.md"))
PART = re.compile(r"(<!-- settings: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str) -> str:
    """The page with the tables of today."""
    return PART.sub(lambda part: f"{part[1]}\n{table(part[2])}\n{part[3]}", page)


def table(name: str) -> str:
    """The settings of one task or objective, or of sequence updates (``seq``)."""
    if name in tasks.registry.names():
        task: Any = tasks.registry.get(name)
        training = ", ".join(f"`training.{key}={shown(value)}`" for key, value in task.training_defaults.items())
        return f"{lines(task.Config, 'task.')}\n\nTraining from the small initial checkpoint: {training}.\n"
    return lines(SequenceConfig if name == "seq" else objectives.registry.get(name).Config, "") + "\n"


def lines(model: type[BaseModel], prefix: str) -> str:
    """The head of a table, and its rows."""
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows(model, prefix)])


def rows(model: type[BaseModel], prefix: str, given: BaseModel | None = None) -> Iterator[str]:
    """A row for each setting, those of a part after the name of the part; ``given`` has the defaults of a part."""
    for name, field in model.model_fields.items():
        default = field.default if given is None else getattr(given, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from rows(field.annotation, f"{prefix}{name}.", default)
        elif name != "objective":  # the name of the part, which the page is about
            meaning = " ".join(field_docstrings(model)[name].split()).replace("``", "`").replace("|", "\\|")
            value = "required" if default is PydanticUndefined else "none" if default is None else f"`{shown(default)}`"
            yield f"| `{prefix}{name}` | {value} | {re.sub(r'(?<![.] )None(?=[: ])', 'none', meaning)} |"


def shown(value: object) -> str:
    """A value as the command line takes it."""
    if isinstance(value, str):
        return value if value and value.isprintable() else json.dumps(value)
    if isinstance(value, list):
        return json.dumps([one if isinstance(one, str) else one.title.replace(" ", ":") for one in value])
    return json.dumps(value)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
