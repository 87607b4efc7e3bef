"""Which settings each training of a method has: those of the task or of fine-tuning, and over them what is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.method import Method
from nextword.experiments.training.settings import FineTuning, TrainingSettings, merged, overlaid


def common_settings(config: CompareConfig) -> TrainingSettings:
    """The training settings that all methods have in common.

    Raises:
        ValueError: A setting that there is not.
    """
    return _settings(config, config.fine_tuning, config.training, "training")


def stage_settings(method: Method, config: CompareConfig) -> list[TrainingSettings]:
    """Training settings of each stage of a method; none of one that is not trained.

    Args:
        method: The method.
        config: The comparison.

    Raises:
        ValueError: A setting that there is not.
    """
    fine_tuning = config.fine_tuning if config.is_fine_tuned(method) else None
    wheres = [f"method '{method.title}': training", f"method '{method.title}': then.training"]
    stages = zip(given_settings(method, config), wheres, strict=False)
    return [_settings(config, fine_tuning, given, where) for given, where in stages]


def given_settings(method: Method, config: CompareConfig) -> list[dict[str, Any]]:
    """What is asked for of each stage of a method, without defaults.

    Raises:
        ValueError: A setting of all second stages that there is not.
    """
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
    """What holds where ``given`` does not say otherwise."""
    from nextword.experiments.tasks import registry

    of_task = registry.get(config.task).training_defaults
    chosen = of_task if fine_tuning is None else fine_tuning.over(of_task, given)
    return {**{name: field.default for name, field in TrainingSettings.model_fields.items()}, **chosen}
