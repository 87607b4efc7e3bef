"""What the models are given: a few ordinary tokens, alone and padded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from architectures.shrunk import PAD, START
from nextword.functional.padding import IGNORED_LABEL as IGNORED

ORDINARY = range(3, 40)
"""Tokens that no tiny model has for marks."""
LENGTHS = (9, 6)
NEW_TOKENS = 6


@dataclass(frozen=True)
class Probe:
    """Inputs of one model.

    Args:
        prompts: What ``generate`` gets, two texts; padded on the left, or on the right for an encoder.
        second: The second of them alone, without padding.
        training: Arguments of a training step: prompts and labels.
        reading: Arguments of ``forward`` without labels.
    """

    prompts: dict[str, Tensor]
    second: dict[str, Tensor]
    training: dict[str, Tensor]
    reading: dict[str, Tensor]


def probe_of(model: Any) -> Probe:
    """Inputs that fit the model."""
    has_encoder = bool(model.config.is_encoder_decoder)
    generator = torch.Generator().manual_seed(3)
    # few different tokens, so that memories have something to add up
    texts = [torch.randint(ORDINARY.start, ORDINARY.start + 12, (n,), generator=generator) for n in LENGTHS]
    ids = torch.full((2, LENGTHS[0]), PAD)
    ids[0] = texts[0]
    positions = slice(0, LENGTHS[1]) if has_encoder else slice(-LENGTHS[1], None)
    ids[1, positions] = texts[1]
    prompts = {"input_ids": ids, "attention_mask": (ids != PAD).long()}
    second = {"input_ids": texts[1][None], "attention_mask": torch.ones(1, LENGTHS[1], dtype=torch.long)}
    if not has_encoder:
        labels = ids.masked_fill(ids == PAD, IGNORED)
        return Probe(prompts, second, prompts | {"labels": labels}, prompts)
    targets = torch.randint(ORDINARY.start, ORDINARY.start + 12, (2, 5), generator=generator)
    read = torch.cat([torch.full((2, 1), START), targets[:, :-1]], 1)
    return Probe(prompts, second, prompts | {"labels": targets}, prompts | {"decoder_input_ids": read})
