"""Estimates of the memory and the disk that trainings take."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nextword.experiments.reproduction.planning.meta_models import ModelSize
from nextword.experiments.reproduction.planning.work import RowLength
from nextword.experiments.training.settings import TrainingSettings

if TYPE_CHECKING:
    from transformers import PretrainedConfig

NUMBER = 4
"""Bytes of a weight, a gradient, and of each of Adam's two moments: all are float32."""

CHUNK = 64 * 2**20
"""Bytes of dense scores that training makes at a time, where the output embedding is small."""

CHECKPOINTS = 2
"""Checkpoints of a running training that exist at a time."""


def training_memory(size: ModelSize, backbone: PretrainedConfig, settings: TrainingSettings, length: RowLength) -> int:
    """Bytes of one training at its peak, an estimate.

    Weights 4 N, gradients and Adam's moments 12 bytes for each trained number, half of it in bfloat16. Activations:
    (34 D + 5 A T) bytes for each of L layers and each token in 16 bits, twice that in 32 (Korthikanti et al., 2022, for
    a layer with four times D inside), of which checkpointing keeps the layers' inputs. Scores over the vocabulary are
    made in chunks: of 64 MiB, of two thirds of the output embedding where that is more, or all where they are less.
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
    """Bytes of the start and all trained models, and the checkpoints of the largest training.

    Args:
        sizes: Of every trained model, one for each seed.
        start: The start.
        keep: Whether trained models stay; otherwise two at a time.
    """
    models = sorted((NUMBER * size.parameters for size in sizes), reverse=True)
    largest = max([*sizes, start], key=lambda size: size.parameters + 2 * size.trained)
    checkpoint = NUMBER * (largest.parameters + 2 * largest.trained)
    return NUMBER * start.parameters + sum(models if keep else models[:2]) + CHECKPOINTS * checkpoint


def existing_folder(path: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    path = path.expanduser().absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())
