"""Settings of one training: a method, an initial model, and data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue, model_validator

from nextword.experiments.training.method_settings import MethodSettings, changed_recipe, with_task_table
from nextword.runtime.merged_adapter import model_of
from nextword.settings.config import Seed, SettingsError, validated
from nextword.settings.overrides import parsed
from nextword.settings.setting_names import named

OURS = "nextword_"
"""Prefix of ``model_type`` in the configurations of nextword models."""
SMALL, SMALL_T5 = "small", "small-t5"
"""Names of new small models: a GPT-2 and a T5."""


class TrainConfig(MethodSettings):
    """Settings of one training. A recipe has the same keys; see docs/train.md.

    >>> TrainConfig(method="cache/histalign", model="small", data="book.txt").objective
    'histalign'
    """

    model: str = Field(min_length=1)
    """Folder, GGUF file or hub name of the model to train (nextword or transformers). ``small`` is a small GPT-2 with
    random weights and a tokenizer trained on the data; ``small-t5`` is the same with a small T5."""
    task: dict[str, JsonValue] = Field(default={})
    """Settings of the task that reads the data: ``data`` (a file, a folder or a hub name), ``kind`` (``text``,
    ``pairs`` or ``auxiliary``; by default detected), and settings for this kind, such as its ``encoder``.
    A recipe may also have ``data`` and ``encoder`` at its top level."""
    states: str | None = None
    """Folder of stored states (``nextword states build``). The backbone is then neither loaded nor trained."""
    seed: Seed = 0
    """Seed of new parameters, batch order and dropout."""
    keep_checkpoints: bool = False
    """Whether to keep the checkpoints after the training has finished."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if isinstance(given.get("method"), str):
            rest = {key: value for key, value in given.items() if key != "method"}
            given = {**MethodSettings.model_validate(given["method"]).model_dump(exclude_unset=True), **rest}
        given = with_task_table(given)
        return _with_stored(given) if isinstance(given.get("states"), str) else given

    @model_validator(mode="after")
    def _has_data(self) -> TrainConfig:
        if not isinstance(self.task.get("data"), str):
            raise ValueError(_no_data())
        return self

    @property
    def is_small(self) -> bool:
        """Whether ``model`` names a new small model."""
        return self.model in (SMALL, SMALL_T5)


def _with_stored(given: dict[str, Any]) -> dict[str, Any]:
    """The settings, with model and task of the stored states. Without a conditioner, only the head is trained."""
    from nextword.model.stored_states.state_files import manifest_of

    origin = manifest_of(Path(given["states"]).expanduser()).origin
    own: dict[str, Any] = {"model": origin.model, "task": origin.task}
    given = own | given
    trains = {"trains": "head"} if given.get("conditioner") is None else {}
    return given | {
        "task": {**origin.task, **given["task"]},
        "training": {**trains, **given.get("training", {})},
    }


def _no_data() -> str:
    return f"task.data: must say what to train on; give {named('data', 'FILE')}, or a hub name"


def read(recipe: str) -> dict[str, Any]:
    """Read the recipe file with the path ``recipe``.

    Raises:
        ValueError: If the file does not exist or is not TOML.
    """
    path = Path(recipe).expanduser()
    if not path.is_file():
        raise ValueError(
            f"{recipe}: no such recipe; give a TOML file, or {named('data')}, {named('model')} and {named('head')}"
        )
    return parsed(path.read_bytes(), str(path))


def configured(recipe: dict[str, Any], overrides: Iterable[str] = ()) -> TrainConfig:
    """Apply ``overrides`` to ``recipe``, and validate the result.

    If ``recipe`` names no head and its ``model`` is the folder of a nextword model, the head of this model is used.

    >>> config = configured({"head": "mos:3", "model": "small", "data": "a.txt"}, ["task.block=64"])
    >>> config.task
    {'data': 'a.txt', 'block': 64}

    Raises:
        ValueError: If an override cannot be parsed, a key is unknown (the message suggests the nearest known key), or a
            value is wrong.
    """
    asked = _with_saved_head(changed_recipe(recipe, overrides))
    try:
        return validated(TrainConfig, asked)
    except SettingsError as fault:
        # pydantic reports missing data only if there is no other error; here both are reported at once
        task = asked.get("task")
        if asked.keys() & {"data", "states"} or (isinstance(task, dict) and "data" in task) or _no_data() in str(fault):
            raise
        raise SettingsError(f"{fault}\n{_no_data()}") from None


def _with_saved_head(recipe: dict[str, Any]) -> dict[str, Any]:
    """Add the head of the model's folder to the recipe, if it is a nextword model and no head is named."""
    if recipe.keys() & {"head", "method"} or not isinstance(recipe.get("model"), str):
        return recipe
    path = Path(model_of(recipe["model"])).expanduser() / "config.json"
    saved = json.loads(path.read_bytes()) if path.is_file() else {}
    if not str(saved.get("model_type")).startswith(OURS):
        return recipe
    from nextword.heads import head_spec, parse_head

    return recipe | {"head": head_spec(parse_head(saved["head"]))}
