"""Tokens of several texts side by side in one row: what a head says at each is what it says of the text alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from nextword.model.forward.head_inputs import OutputParts, PackedInputs, PackedTokens, packed_inputs
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.head_cache.slots import SlotMapping, SlotMemory
from tests.helpers.generating_models import DECODERS, headed, prompt

BLOCK = 4
TABLE = torch.tensor([[5, 0, 7], [2, 6, 1], [8, 3, 4]])
PASSES = [[5, 3, 0], [1, 4, 7], [2, 0, 1], [3, 1, 1]]
"""New tokens of three texts in each pass; a text without any is not in it."""


@torch.no_grad()
def packed_passes(model: Any) -> Iterator[tuple[PackedInputs, Tensor]]:
    """What the head is given in each pass, and the log-probabilities of each text alone at the same tokens."""
    texts, memory = prompt(3, length=11), SlotMemory(9 * BLOCK)
    hidden = model.backbone(texts, output_hidden_states=True).hidden_states
    expected = model(texts).logits.log_softmax(-1)
    done = [0, 0, 0]
    for new in PASSES:
        of = [text for text, positions in enumerate(new) if positions]
        chosen = [slice(done[text], done[text] + new[text]) for text in of]
        done = [begun + positions for begun, positions in zip(done, new, strict=True)]

        def packed(of_texts: Tensor, of: list[int] = of, chosen: list[slice] = chosen) -> Tensor:
            return torch.cat([of_texts[text, positions] for text, positions in zip(of, chosen, strict=True)])

        starts = torch.tensor([0, *[new[text] for text in of]]).cumsum(0)
        slots = SlotMapping.of_blocks(
            starts, torch.tensor([done[text] for text in of]), TABLE[of], BLOCK, int(starts[-1])
        )
        layers = tuple(packed(hidden[-1 - depth]) for depth in range(model.next_word_head.layers))
        tokens = PackedTokens(packed(texts), packed(hidden[-1]), layers)
        parts = OutputParts(OutputLayer(model.backbone))
        yield packed_inputs(model.next_word_head, parts, tokens, memory.in_pass(slots)), packed(expected)


def same(model: Any, context: Any, expected: Tensor) -> bool:
    found = model.next_word_head(context).log_probs()
    return torch.allclose(found, expected.to(found.dtype), rtol=0, atol=1e-6)


@pytest.mark.few(7)
@pytest.mark.parametrize("head", DECODERS["gpt2"])
@torch.no_grad()
def test_every_token_as_in_its_text_alone(head: str) -> None:
    model = headed("gpt2", head)
    for packed, expected in packed_passes(model):
        count = len(expected)
        assert same(model, packed.last(0), expected)
        assert same(model, packed.last(2), expected[-2:])
        some = torch.arange(count) % 3 != 1
        assert same(model, packed.at(some.nonzero()[:, 0]), expected[some])
        any_order = torch.tensor([count - 1, 0, 0, count // 2])
        assert same(model, packed.last(any_order), expected[any_order])


def test_a_head_without_memory_keeps_nothing() -> None:
    for packed, _ in packed_passes(headed("gpt2", "f2")):
        assert packed.last(0).memory is None
