"""The models that the tests are run on: tiny configurations, and inputs as transformers' own testers make them."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from architectures.probes import ORDINARY
from architectures.tiny_model import AUTO, tiny_config
from torch import Tensor

from nextword.functional.frequency import TokenCounts
from nextword.model.configuration import NextWordConfig, NextWordSeq2SeqConfig
from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM

BARE = "bare"
"""In place of a head: the model of transformers as it is."""
DECODER, WITH_ENCODER = "decoder-only", "encoder-decoder"
BACKBONES = {"gpt2": DECODER, "llama": DECODER, "qwen3_next": DECODER, "t5": WITH_ENCODER}
"""Name to kind: learned places, rotary places, states and attention in turn, an encoder."""
_EVERYWHERE = ("softmax", "sigsoftmax", "mos:2", "cache", "copynet", "pg", "ps", "f2", "softmax+mi:2x3")
HEADS = {DECODER: (*_EVERYWHERE, "softmax+cpr:3,5"), WITH_ENCODER: (*_EVERYWHERE, "softmax+cepr:3,5")}
"""One head of each family, for each kind of model."""
WRAPPED = {DECODER: (NextWordConfig, NextWordForCausalLM), WITH_ENCODER: (NextWordSeq2SeqConfig, NextWordForSeq2SeqLM)}


def pairs() -> list[tuple[str, str]]:
    """Every backbone with every head, the bare model first."""
    return [(name, head) for name, kind in BACKBONES.items() for head in (BARE, *HEADS[kind])]


@cache
def _counted() -> dict[str, Any]:
    """The head that divides the vocabulary by frequency needs counts: a file of them."""
    path = Path(tempfile.mkdtemp()) / "counts.npz"
    TokenCounts(np.arange(40, dtype=np.int64)[::-1].copy(), None, "transformers' tests").save(path)
    return {"head": "f2", "counts": str(path)}


def model_class(backbone: str, head: str) -> Any:
    """The class that the tests make models of."""
    kind = BACKBONES[backbone]
    if head != BARE:
        return WRAPPED[kind][1]
    return AUTO[kind]._model_mapping[type(tiny_config(kind, backbone))]


class ModelTester:
    """What transformers' tests ask about the model that they test: its configuration, and inputs that fit it."""

    is_training = True
    batch_size = 5

    def __init__(self, backbone: str, head: str) -> None:
        self.backbone, self.head, self.kind = backbone, head, BACKBONES[backbone]
        made = tiny_config(self.kind, backbone)
        self.seq_length = self.encoder_seq_length = self.decoder_seq_length = self.key_length = 7
        self.hidden_size = made.hidden_size
        self.num_hidden_layers = made.num_hidden_layers
        self.num_attention_heads = made.num_attention_heads
        self.vocab_size = made.vocab_size
        self.pad_token_id = made.pad_token_id

    def get_config(self) -> Any:
        """The configuration of the bare model, or of that model with the head."""
        made = tiny_config(self.kind, self.backbone)
        if self.head == BARE:
            return made
        head = _counted() if self.head == "f2" else self.head
        return WRAPPED[self.kind][0](text_config=made, head=head)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Tensor]]:
        """Configuration, and random tokens padded on the right to a triangle, as transformers has them."""
        shape = (self.batch_size, self.seq_length)
        ids = torch.randint(ORDINARY.start, ORDINARY.stop, shape)
        inputs = {"input_ids": ids, "attention_mask": torch.ones(shape, dtype=torch.long).tril(2)}
        if self.backbone == "gpt2":
            inputs["token_type_ids"] = torch.randint(ORDINARY.start, ORDINARY.stop, shape)
        if self.kind == WITH_ENCODER:
            inputs["decoder_input_ids"] = torch.randint(ORDINARY.start, ORDINARY.stop, shape)
            inputs["decoder_attention_mask"] = torch.ones(shape, dtype=torch.long).tril(2)
        return self.get_config(), inputs
