"""Settings of a comparison: a task, an initial checkpoint, and the same training and seeds for every method."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, Field, JsonValue, model_validator

from nextword.experiments.comparison.method import Method
from nextword.experiments.training.method_settings import changed_recipe, with_task_table
from nextword.experiments.training.settings import FineTuning, TrainingSettings, merged, overlaid
from nextword.settings.config import Seed, Settings, validated
from nextword.settings.overrides import parsed
from nextword.settings.registry import did_you_mean

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task


TRAINED, RANDOM = "trained for task", "random weights for task"
"""Values of ``source`` in ``start.json`` for a small initial checkpoint that was made for a task."""


class StartConfig(Settings):
    """The initial checkpoint of all methods."""

    model: str | None = None
    """Folder, GGUF file or hub name of a language model with the architecture that the task needs. By default the
    task's small model, which is trained once."""
    seed: Seed = 0
    """Seed of the small model's training."""
    training: dict[str, JsonValue] = Field(default={})
    """Training settings of the small model, which override the task's."""

    @property
    def is_pretrained(self) -> bool:
        """Whether the checkpoint is a pretrained model: any named model except a small one that a task has trained."""
        return self.model is not None and not _is_small(self.model)


def _is_small(model: str) -> bool:
    # whether the folder has a small model that a task made in another comparison (runs/xsum/start/model)
    record = Path(model).expanduser().parent / "start.json"
    try:
        source = str(json.loads(record.read_bytes()).get("source"))
    except (OSError, ValueError):
        return False
    return source.startswith((TRAINED, RANDOM)) or _is_small(source)


class CompareConfig(Settings):
    """Settings of a comparison. A recipe has the same keys; see docs/compare.md."""

    task: str
    """Name of the task; ``nextword list tasks`` shows them. In a recipe, a table with ``name`` and settings."""
    task_settings: dict[str, JsonValue] = Field(default={})
    """Settings of the task, such as the files it reads; in a recipe, the other keys of the table ``task``."""
    methods: list[Method] = Field(min_length=1)
    """Methods to compare; tables keep this order."""
    seeds: list[Seed] = Field(default=[0], min_length=1)
    """Training seeds; each method is trained once per seed. A seed sets batch order, dropout and new weights."""
    start: StartConfig = StartConfig()
    """The initial checkpoint."""
    training: dict[str, JsonValue] = Field(default={})
    """Training settings for all methods, which override the task's."""
    second_training: dict[str, JsonValue] = Field(default={})
    """Training settings of second stages, which override those of the first stages."""
    states: str | None = None
    """Folder of stored states of the initial checkpoint, built if missing. Only the heads are then trained, and the
    model does not run in training."""
    fine_tuning: FineTuning | None = Field(default_factory=lambda given: _fine_tuning(given))
    """Default learning rates and warm-up, which replace the task's in ``training``. By default: those of fine-tuning
    (docs/train.md) if the initial checkpoint is a pretrained model, and the task's if it is a small model."""
    threads: int | None = Field(default=None, gt=0)
    """Number of CPU threads; by default torch's choice."""
    keep_models: bool = True
    """Whether to keep the trained models. A finished run cannot be inspected without its model."""

    def is_fine_tuned(self, method: Method) -> bool:
        """Whether ``method`` is fine-tuned: ``fine_tuning`` is set, and the method does not begin from scratch."""
        return self.fine_tuning is not None and not method.from_scratch

    def expect_known_names(self) -> None:
        """Raise ValueError, with the nearest known name, if a head, objective or conditioner does not exist."""
        for method in self.methods:
            method.expect_known_names()

    @model_validator(mode="before")
    @classmethod
    def _task_table(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance((given := with_task_table(given)).get("task"), dict):
            return given
        settings = dict(given["task"])
        if not isinstance(settings.get("name"), str):
            raise ValueError("task.name: give the name of the task; 'nextword list tasks' shows them")
        name, further = settings.pop("name"), given.get("task_settings", {})
        return {**given, "task": name, "task_settings": settings | further if isinstance(further, dict) else further}

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        twice = _repeated(self.seeds)
        if twice:
            raise ValueError(f"seeds: {twice[0]} is given twice")
        for slug in _repeated(method.slug for method in self.methods):
            titles = ", ".join(f"'{method.title}'" for method in self.methods if method.slug == slug)
            raise ValueError(f"methods: {titles} would share the folder '{slug}'; give them different labels")
        return self


def _fine_tuning(given: dict[str, Any]) -> FineTuning | None:
    start = given.get("start")  # missing if it is invalid; pydantic then reports the error
    return FineTuning() if start is not None and start.is_pretrained else None


def build_task(config: CompareConfig) -> Task:
    """Build the task of a comparison. ValueError if a task setting is wrong or the task cannot read its data."""
    from nextword.experiments.tasks import registry

    return registry.get(config.task)(task_config(config))


def task_config(config: CompareConfig) -> Any:
    """The settings of the task, including defaults. ValueError if the task is unknown or a setting of it is wrong."""
    from nextword.experiments.tasks import registry

    return validated(registry.get(config.task).Config, config.task_settings, "task")


def plain(config: BaseModel) -> dict[str, Any]:
    """Convert a config to plain numbers, strings, lists and dicts."""
    return config.model_dump(mode="json")


def _repeated(values: Iterable[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


# -- The settings of each training of a method: defaults of the task or of fine-tuning, overridden by given settings.


def common_settings(config: CompareConfig) -> TrainingSettings:
    """The training settings that all methods have in common, including defaults. ValueError for an unknown setting."""
    return _settings(config, config.fine_tuning, config.training, "training")


def stage_settings(method: Method, config: CompareConfig) -> list[TrainingSettings]:
    """The training settings, including defaults, of each training stage of ``method``; empty if it is not trained."""
    fine_tuning = config.fine_tuning if config.is_fine_tuned(method) else None
    wheres = [f"method '{method.title}': training", f"method '{method.title}': then.training"]
    stages = zip(given_settings(method, config), wheres, strict=False)
    return [_settings(config, fine_tuning, given, where) for given, where in stages]


def given_settings(method: Method, config: CompareConfig) -> list[dict[str, Any]]:
    """The settings given for each training stage of ``method``, without defaults; empty if it is not trained."""
    if not method.trained:
        return []
    first = overlaid(config.training, method.training)
    if method.then is None:
        return [first]
    second = overlaid(first, config.second_training)
    _settings(config, config.fine_tuning, second, "second_training")
    return [first, overlaid(second, method.then.training)]


def _settings(
    config: CompareConfig, fine_tuning: FineTuning | None, given: dict[str, Any], where: str
) -> TrainingSettings:
    return merged(defaults(config, fine_tuning, given), given, where)


def defaults(config: CompareConfig, fine_tuning: FineTuning | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of all training settings. The learning rates of ``fine_tuning`` depend on the settings in ``given``."""
    from nextword.experiments.tasks import registry

    of_task = registry.get(config.task).training_defaults
    chosen = of_task if fine_tuning is None else fine_tuning.over(of_task, given)
    trained = {} if config.states is None else {"trains": "head", "freeze_output_embeddings": False}
    return {**{name: field.default for name, field in TrainingSettings.model_fields.items()}, **chosen, **trained}


# -- A recipe is a TOML file. On the command line, ``key.path=value`` overrides a setting.


def built_in() -> dict[str, str]:
    """A mapping from the name of each built-in recipe to the first line of its file."""
    folder = resources.files("nextword.experiments") / "recipes"
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    return {name: text.splitlines()[0].lstrip("# ") for name, text in sorted(texts.items())}


def read(recipe: str) -> dict[str, Any]:
    """Read the file ``recipe``, or the built-in recipe of this name if there is no such file.

    Raises:
        ValueError: If there is no such file or built-in recipe, or the file is not TOML.
    """
    path = Path(recipe).expanduser()
    if path.is_file():
        return parsed(path.read_bytes(), str(path))
    if recipe in built_in():
        return parsed((resources.files("nextword.experiments") / "recipes" / f"{recipe}.toml").read_bytes(), recipe)
    names = ", ".join(built_in())
    raise ValueError(f"{recipe}: no such file or built-in recipe.{did_you_mean(recipe, built_in())} Built in: {names}.")


def configured(recipe: dict[str, Any], overrides: Iterable[str] = ()) -> CompareConfig:
    """Apply ``overrides`` (``key.path=value``) to ``recipe``, and validate the result.

    >>> configured({"task": "lm", "methods": ["softmax"]}, ["training.steps=20", "seeds=[0, 1]"]).seeds
    [0, 1]

    Raises:
        ValueError: If an override cannot be parsed, a key is unknown (the message suggests the nearest known key), or a
            value is wrong.
    """
    changed = changed_recipe(recipe, overrides)
    _expect_task_settings_in_task(changed)
    return validated(CompareConfig, changed)


def _expect_task_settings_in_task(recipe: dict[str, Any]) -> None:
    unknown = [key for key in recipe if key not in CompareConfig.model_fields]
    table = recipe.get("task")
    if not unknown or not isinstance(table, dict):
        return
    from nextword.experiments.tasks import registry

    name = table.get("name")
    settings = registry.get(name).Config.model_fields if name in registry.names() else {}
    for key in unknown:
        if key in settings:
            raise ValueError(f"{key}: is a setting of the task; give task.{key}={recipe[key]} in its place")
