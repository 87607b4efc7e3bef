"""What a step of a training takes on a GPU, estimated from its products; ``measured_steps.py`` is for this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nextword.experiments.reproduction.planning.gpus import UTILISATION, find_gpu
from nextword.experiments.reproduction.planning.memory import training_memory
from nextword.experiments.reproduction.planning.work import products
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from nextword.experiments.reproduction.planning.experiment_work import ExperimentWork
    from nextword.experiments.reproduction.planning.meta_models import ModelSize
    from nextword.experiments.reproduction.planning.work import PlannedTraining


@dataclass(frozen=True)
class StepCost:
    """What one training step takes.

    Attributes:
        seconds: Of a step; None: not known.
        memory: Bytes at its peak; None: not known.
        reason: Why something is not known, in a few words.
        steps: Of the whole training, where only its rows say it.
    """

    seconds: float | None = None
    memory: float | None = None
    reason: str = ""
    steps: int | None = None


@dataclass(frozen=True)
class Speed:
    """How fast a GPU makes products.

    Attributes:
        told: In words, with what is assumed.
        single: Floating-point operations a second in float32.
        half: The same in bfloat16.
        memory: Bytes of the device.
    """

    told: str
    single: float
    half: float
    memory: float

    def cost(self, training: PlannedTraining, work: ExperimentWork) -> StepCost:
        """An estimate: operations over speed, and the memory of weights, gradients, moments and activations."""
        size, length = work.sizes[training.method.title], work.length
        if length is None or work.backbone is None:
            return StepCost()
        memory = training_memory(size, work.backbone, training.settings, length)
        if memory > self.memory:
            reason = f"takes about {memory / 1e9:.0f} GB of memory, and there are {self.memory / 1e9:.0f} GB"
            return StepCost(self._seconds(training, size), memory, reason)
        return StepCost(self._seconds(training, size), memory)

    def _seconds(self, training: PlannedTraining, size: ModelSize) -> float | None:
        settings = training.settings
        if training.steps is None or training.tokens is None:
            return None
        each = products(size.passed, size.trained, training.tokens) / training.steps
        return each / (self.half if settings.bf16 or settings.fp16 else self.single)


def gpu_speed(text: str) -> Speed:
    """That of a GPU: its published peak times the share of it that trainings reach.

    >>> gpu_speed("A100 40GB:0.5").told
    'A100 40GB at 50% of its published peak, as given'

    Args:
        text: One of gpus.toml; behind a colon the share that was measured, otherwise it is assumed.

    Raises:
        ValueError: The GPU is not known here, or no such share.
    """
    name, colon, given = text.partition(":")
    gpu = find_gpu(name)
    try:
        share = float(given) if colon else UTILISATION
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(
            f"{named('gpu')}: must be NAME or NAME:SHARE, a share of the peak above 0 and up to 1 ('{text}' given)"
        )
    told = f"{name} at {share:.0%} of its published peak, {'as given' if colon else 'an assumption'}"
    return Speed(told, share * gpu.fp32 * 1e12, share * gpu.bf16 * 1e12, gpu.memory * 1e9)
