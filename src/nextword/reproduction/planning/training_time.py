"""How long the trainings of a comparison take: as was measured, or from their products and a speed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.records import Results
from nextword.reproduction.planning.gpus import UTILISATION, find_gpu
from nextword.training.settings import TrainingSettings

if TYPE_CHECKING:
    from nextword.reproduction.planning.work import PlannedTraining


@dataclass(frozen=True)
class Speed:
    """How fast products are made.

    Attributes:
        told: In words, with what is measured and what is assumed.
        single: Floating-point operations a second in float32.
        half: The same in bfloat16.
        memory: Bytes of the device; None: not looked at.
    """

    told: str
    single: float
    half: float
    memory: float | None = None

    def seconds(self, products: float, settings: TrainingSettings) -> float:
        """Of so many operations of a training with these settings."""
        return products / (self.half if settings.bf16 or settings.fp16 else self.single)


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
        raise ValueError(f"--gpu: must be NAME or NAME:SHARE, a share of the peak above 0 and up to 1 ('{text}' given)")
    told = f"{name} at {share:.0%} of its published peak, {'as given' if colon else 'an assumption'}"
    return Speed(told, share * gpu.fp32 * 1e12, share * gpu.bf16 * 1e12, gpu.memory * 1e9)


@cache
def speed_here() -> Speed:
    """That of this machine, measured in a second on training steps of a GPT-2 as small as those of --scale small."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=8000, n_positions=256, n_embd=128, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
    )
    ids = torch.zeros(4, 256, dtype=torch.long)
    parameters = sum(one.numel() for one in model.parameters())
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        scores = model(input_ids=ids).logits
        loss: Any = torch.nn.functional.cross_entropy(scores.flatten(0, 1), ids.flatten())
        loss.backward()
        seconds.append(time.perf_counter() - began)
    speed = 6 * parameters * ids.numel() / min(seconds)
    told = f"this machine, {speed / 1e9:.0f} GFLOP/s measured on a small GPT-2; measuring and writing texts come on top"
    return Speed(told, speed, speed)


def measured_steps(folder: Path) -> Mapping[str, float]:
    """Seconds of a step by method, of runs that are finished in the folder of a comparison."""
    path = folder / "results.json"
    if not path.exists():
        return {}
    try:
        runs = Results.load(path).runs
    except ValueError:
        return {}
    return {run.method: run.cost.ms_per_step / 1000 for run in runs if run.cost.ms_per_step is not None}


def training_seconds(
    one: PlannedTraining, products: float | None, speed: Speed, measured: Mapping[str, float]
) -> float | None:
    """Of one planned training with all its seeds; None: nothing is known.

    Args:
        one: The training.
        products: Operations of it with one seed; None: not known.
        speed: Of the device.
        measured: Seconds of a step by method.
    """
    if one.method.title in measured and one.steps is not None:
        return measured[one.method.title] * one.steps * one.runs
    return None if products is None else speed.seconds(products, one.settings) * one.runs
