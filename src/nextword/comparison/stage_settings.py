"""Which settings each training of a method has."""

from __future__ import annotations

from nextword.comparison.comparison_settings import CompareConfig, plain
from nextword.comparison.method import Method
from nextword.training.settings import TrainingSettings, merged


def stage_settings(method: Method, common: TrainingSettings, config: CompareConfig) -> list[TrainingSettings]:
    """Training settings of each stage of a method; none of one that is not trained.

    Args:
        method: The method.
        common: What all methods are trained with.
        config: The comparison.

    Raises:
        ValueError: A setting that there is not.
    """
    if not method.trained:
        return []
    where = f"method '{method.title}': "
    first = merged(plain(common), method.training, f"{where}training") if method.training else common
    if method.then is None:
        return [first]
    second = merged(plain(first), config.second_training, "second_training")
    return [first, merged(plain(second), method.then.training, f"{where}then.training")]
