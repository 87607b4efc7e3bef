"""Estimate the time and memory of a training step on a GPU; ``measured_steps.py`` measures this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nextword.experiments.reproduction.data_sets import FOLDER, packaged_entries
from nextword.experiments.training.settings import TrainingSettings
from nextword.settings.config import Settings
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from nextword.experiments.reproduction.planning.experiment_work import (
        ExperimentWork,
        ModelSize,
        PlannedTraining,
        RowLength,
    )


@dataclass(frozen=True)
class StepCost:
    """Cost of one training step.

    Attributes:
        seconds: Seconds per step; None: unknown.
        memory: Peak memory in bytes; None: unknown.
        reason: Reason why a value is unknown or the memory does not suffice, in a few words.
        steps: Steps of the whole training, if they follow from the number of rows.
    """

    seconds: float | None = None
    memory: float | None = None
    reason: str = ""
    steps: int | None = None


@dataclass(frozen=True)
class Speed:
    """Speed of a GPU in matrix products.

    Attributes:
        told: Description, with the assumptions.
        single: Floating-point operations per second in float32.
        half: Floating-point operations per second in bfloat16.
        memory: Device memory in bytes.
    """

    told: str
    single: float
    half: float
    memory: float

    def cost(self, training: PlannedTraining, work: ExperimentWork) -> StepCost:
        """Estimated cost of a step: seconds are operations divided by speed, memory is ``training_memory``."""
        size, settings, seconds, reason = work.sizes[training.method.title], training.settings, None, ""
        if work.length is None or work.backbone is None:
            return StepCost()
        if training.steps is not None and training.tokens is not None:
            # a token takes 2 N in the forward pass, 2 N for the gradients of states, 2 for each weight that is trained
            products = float(4 * size.passed + 2 * size.trained) * training.tokens / training.steps
            seconds = products / (self.half if settings.bf16 or settings.fp16 else self.single)
        memory = training_memory(size, work.backbone, settings, work.length)
        if memory > self.memory:
            reason = f"needs about {memory / 1e9:.0f} GB of memory, but the GPU has {self.memory / 1e9:.0f} GB"
        return StepCost(seconds, memory, reason)


def gpu_speed(text: str) -> Speed:
    """Speed of the GPU that ``text`` (NAME or NAME:FRACTION) names: its published peak times FRACTION (default 0.35).

    >>> gpu_speed("A100 40GB:0.5").told
    'A100 40GB at 50% of its published peak, as given'

    Raises:
        ValueError: If the GPU is unknown or the fraction is not above 0 and at most 1.
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


# -- GPUs by name, with what their makers publish.

UTILISATION = 0.35
"""Default fraction of the peak that a training reaches: an assumption, common for dense models."""


class Gpu(Settings):
    """One kind of GPU."""

    memory: float = Field(gt=0)
    """Memory in GB."""
    bf16: float = Field(gt=0)
    """Peak speed of dense products in bfloat16, in teraflops."""
    fp32: float = Field(gt=0)
    """Peak speed of dense products in float32, in teraflops."""


@cache
def known_gpus() -> dict[str, Gpu]:
    """A mapping from name to GPU, for all known GPUs."""
    return packaged_entries(Gpu, FOLDER / "planning" / "gpus.toml")


def find_gpu(name: str) -> Gpu:
    """Return a GPU by its name.

    >>> find_gpu("H100 80GB").memory
    80.0

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in known_gpus():
        near, known = did_you_mean(name, known_gpus()), ", ".join(known_gpus())
        raise ValueError(f"{named('gpu')}: must be a known GPU ('{name}' given).{near} Known: {known}.")
    return known_gpus()[name]


# -- Estimates of the memory and the disk that trainings take.

NUMBER = 4
"""Bytes of a weight, a gradient, and each of Adam's two moments, which are all float32."""

CHUNK = 64 * 2**20
"""Bytes of dense scores per chunk in training, if the output embedding is small."""

CHECKPOINTS = 2
"""Maximum number of checkpoints of a running training on disk."""


def training_memory(size: ModelSize, backbone: PretrainedConfig, settings: TrainingSettings, length: RowLength) -> int:
    """Estimated peak memory of one training, in bytes.

    Weights: 4 bytes per parameter. Gradients and Adam's moments: 12 bytes per trained parameter. If the weights are in
    bfloat16, these numbers are halved.

    Activations: (34 D + 5 A T) bytes per layer and token in 16 bits, twice that in 32 bits, with width D, A attention
    heads and T tokens per row (Korthikanti et al., 2022, for an inner width of 4 D). Gradient checkpointing keeps only
    the layers' inputs. Scores over the vocabulary are computed in chunks of 64 MiB or two thirds of the output
    embedding's size, whichever is larger.
    """
    decoder = backbone.get_text_config(decoder=True)
    scores: int = NUMBER * decoder.vocab_size * settings.batch_size * length.tokens
    chunk: int = max(CHUNK, 2 * NUMBER * decoder.vocab_size * decoder.hidden_size // 3)
    held = NUMBER if settings.weights == "float32" else NUMBER // 2
    fixed = held * size.parameters + 3 * held * size.trained + min(scores, chunk)
    layers: int = decoder.num_hidden_layers + (getattr(backbone, "encoder_layers", None) or 0)
    width: int = decoder.hidden_size
    heads: int = decoder.num_attention_heads
    tokens, bytes_each = settings.batch_size * length.tokens, 2 if settings.bf16 or settings.fp16 else held
    layer: int = tokens * (34 * width + 5 * heads * length.tokens) * bytes_each // 2
    if settings.activation_checkpointing:
        return fixed + layers * tokens * width * bytes_each + layer
    return fixed + layers * layer


def models_on_disk(sizes: Iterable[ModelSize], start: ModelSize, keep: bool) -> int:
    """Bytes of the initial checkpoint, all trained models, and the checkpoints of the largest training.

    ``sizes`` are those of the trained models. If ``keep`` is false, only the two largest models count.
    """
    models = sorted((NUMBER * size.parameters for size in sizes), reverse=True)
    largest = max([*sizes, start], key=lambda size: size.parameters + 2 * size.trained)
    checkpoint = NUMBER * (largest.parameters + 2 * largest.trained)
    return NUMBER * start.parameters + sum(models if keep else models[:2]) + CHECKPOINTS * checkpoint


def existing_folder(path: Path) -> Path:
    """``path``, or its nearest parent that exists."""
    path = path.expanduser().absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())
