"""Generation on the card: the same tokens and probabilities with a cache, without one, and with drafts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.model.speculative_decoding.speculative_decoding import FixedLength
from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, NEW, headed, left_padded, prompt
from tests.helpers.on_card import DEVICE, moved
from tests.helpers.recomputation import TOLERANCE, generated

pytestmark = pytest.mark.gpu

PAIRS = [
    *(("gpt2", head) for head in DECODERS["gpt2"]),
    *((family, DECODERS[family][0]) for family in ("llama", "mistral")),
    *((family, head) for family in ENCODER_DECODERS for head in ENCODER_DECODERS[family]),
]
MODES = {"greedy": {"do_sample": False}, "sampling": {"do_sample": True}, "beams": {"num_beams": 3}}


def steps_of(out: Any) -> Tensor:
    """Log-probabilities (rows, new tokens, V) that each token was chosen from."""
    return torch.stack(list(out.logits), 1).double().log_softmax(-1)


@torch.no_grad()
def full_pass(model: Any, sequences: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """The same from one pass over the finished texts."""
    given = dict(inputs)
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = sequences[:, :-1]
    else:
        given["input_ids"] = sequences[:, :-1]
        if "attention_mask" in given:
            mask = torch.nn.functional.pad(given["attention_mask"], (0, NEW - 1), value=1)
            given |= {"attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp_min(0)}
    log_probs: Tensor = model.distribution(**given, use_cache=False).log_probs()
    return log_probs.unflatten(0, (len(sequences), -1))[:, -NEW:].double()


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.clamp_min(-30), theirs.clamp_min(-30), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_with_cache_as_without(family: str, head: str, mode: str) -> None:
    model, ids = moved(headed(family, head)), prompt().to(DEVICE)
    cached = generated(model, ids, max_new_tokens=NEW, **MODES[mode])
    plain = generated(model, ids, max_new_tokens=NEW, use_cache=False, **MODES[mode])
    assert cached.sequences.device.type == DEVICE.type
    assert cached.sequences.tolist() == plain.sequences.tolist()
    if mode != "beams":  # whose steps are not of the texts that are returned
        assert_close(steps_of(cached), steps_of(plain))
        assert_close(steps_of(cached), full_pass(model, cached.sequences, {"input_ids": ids}))


@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_greedy_texts_are_those_of_the_cpu(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt()
    on_cpu = model.generate(ids, max_new_tokens=NEW, do_sample=False)
    assert moved(model).generate(ids.to(DEVICE), max_new_tokens=NEW, do_sample=False).tolist() == on_cpu.tolist()


@pytest.mark.parametrize("head", DECODERS["gpt2"])
def test_left_padding(head: str) -> None:
    model, padding = moved(headed("gpt2", head)), [0, 4, 7]
    ids, mask = (tensor.to(DEVICE) for tensor in left_padded(prompt(3), padding))
    out = generated(model, ids, attention_mask=mask, max_new_tokens=NEW)
    assert_close(steps_of(out), full_pass(model, out.sequences, {"input_ids": ids, "attention_mask": mask}))
    for row, hidden in enumerate(padding):
        alone = model.generate(ids[row : row + 1, hidden:], max_new_tokens=NEW)
        assert out.sequences[row, hidden:].tolist() == alone[0].tolist()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    ("family", "head"), [("gpt2", "cache"), ("gpt2", "softmax+cpr:3,8+mi"), ("llama", "pg"), ("t5", "source cache")]
)
def test_drafts_change_no_greedy_text(family: str, head: str, rows: int) -> None:
    model, ids = moved(headed(family, head)), prompt(rows).repeat(1, 2).to(DEVICE)
    plain = model.generate(ids, max_new_tokens=20, do_sample=False).tolist()
    for by in ("head", "prompt"):
        decoding = nw.SpeculativeDecoding(by, FixedLength(4))
        assert model.generate(ids, max_new_tokens=20, do_sample=False, draft=decoding).tolist() == plain
        assert decoding.verified, "nothing was drafted, so nothing was tested"


@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8+mi", "pg", "f2"])
def test_half_precision_has_the_distribution_of_a_full_pass(head: str) -> None:
    """In bfloat16 a step and a full pass may choose different tokens where two are nearly as likely."""
    model, ids = moved(headed("gpt2", head), torch.bfloat16), prompt().to(DEVICE)
    out = generated(model, ids, max_new_tokens=NEW)
    ours, full = steps_of(out).exp(), full_pass(model, out.sequences, {"input_ids": ids}).exp()
    assert (ours - full).abs().sum(-1).div(2).mean() < 0.1  # mean total variation, of at most 1
