"""What trainings share in which rows of a batch see one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from nextword.experiments.training.learning_rates import GroupedTrainer
from nextword.runtime import processes


class RememberingTrainer(GroupedTrainer):
    """Trainer for a head that looks back beyond its window, in one process. A concrete one names its setting.

    Args:
        rates: As in ``GroupedTrainer``.
        *args: As in Trainer.
        **kwargs: As in Trainer.

    Raises:
        ValueError: The model's head looks back over its window alone, or several processes train.
    """

    setting: ClassVar[str]
    """That asked for it."""

    def __init__(self, rates: Mapping[str, float], *args: Any, **kwargs: Any) -> None:
        super().__init__(rates, *args, **kwargs)
        ours: Any = self.model
        head = getattr(ours, "next_word_head", None)
        if head is None or head.looks_back is None:
            raise ValueError(
                f"training.{self.setting}: must be with a head that looks back beyond its window (none here); give one "
                "such as cache:long=12288"
            )
        if processes.count() > 1:
            raise ValueError(
                f"training.{self.setting}: must be in one process, which chooses the order of the rows "
                f"({processes.count()} given); start it without torchrun"
            )
