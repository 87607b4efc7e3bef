"""Greedy, sampling and beam search: the same tokens and probabilities as without a cache, and as recomputed."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.generating_models import (
    DECODERS,
    ENCODER_DECODERS,
    MODES,
    NEW,
    crossed,
    headed,
    left_padded,
    pairs,
    prompt,
)
from tests.helpers.recomputation import TOLERANCE, assert_as_recomputed, generated, step_log_probs

EVERY_MODE = {name: name for name in MODES}
PADDED_MODES = {name: name for name in ("greedy", "sampling", "beams")}
ALL = {**DECODERS, **ENCODER_DECODERS}


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(ALL), EVERY_MODE, often=2))
def test_mode(family: str, head: str, mode: str) -> None:
    model, ids = headed(family, head), prompt()
    cached = generated(model, ids, max_new_tokens=NEW, **MODES[mode])
    uncached = generated(model, ids, max_new_tokens=NEW, use_cache=False, **MODES[mode])
    assert cached.past_key_values is not None
    assert uncached.past_key_values is None
    assert cached.sequences.tolist() == uncached.sequences.tolist()
    assert torch.allclose(step_log_probs(cached), step_log_probs(uncached), rtol=0, atol=TOLERANCE)
    assert_as_recomputed(model, cached, {"input_ids": ids})


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(DECODERS), PADDED_MODES))
def test_left_padded_batch(family: str, head: str, mode: str) -> None:
    model = headed(family, head)
    ids, mask = left_padded(prompt(3), [0, 4, 7])
    inputs = {"input_ids": ids, "attention_mask": mask}
    out = generated(model, **inputs, max_new_tokens=NEW, **MODES[mode])
    uncached = generated(model, **inputs, max_new_tokens=NEW, use_cache=False, **MODES[mode])
    assert out.sequences.tolist() == uncached.sequences.tolist()
    assert_as_recomputed(model, out, inputs)


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(DECODERS), {"greedy": "greedy", "beams": "beams"}))
def test_left_padded_row_is_as_alone(family: str, head: str, mode: str) -> None:
    model, padding = headed(family, head), [0, 4, 7]
    ids, mask = left_padded(prompt(3), padding)
    batch = generated(model, ids, attention_mask=mask, max_new_tokens=NEW, **MODES[mode])
    for row, hidden in enumerate(padding):
        alone = generated(model, ids[row : row + 1, hidden:], max_new_tokens=NEW, **MODES[mode])
        assert batch.sequences[row, hidden:].tolist() == alone.sequences[0].tolist()
        in_batch = step_log_probs(batch)[row]
        assert torch.allclose(in_batch, step_log_probs(alone)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(ENCODER_DECODERS), PADDED_MODES))
def test_padded_sources(family: str, head: str, mode: str) -> None:
    model, ids = headed(family, head), prompt(3)
    mask = (torch.arange(ids.shape[1]) < torch.tensor([[9], [5], [2]])).long()
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    out = generated(model, **inputs, max_new_tokens=NEW, **MODES[mode])
    assert_as_recomputed(model, out, inputs)
    if mode != "sampling":  # a batch of three draws other random numbers than one
        for row, length in enumerate(mask.sum(1)):
            alone = generated(model, ids[row : row + 1, :length], max_new_tokens=NEW, **MODES[mode])
            assert out.sequences[row].tolist() == alone.sequences[0].tolist()
            assert torch.allclose(step_log_probs(out)[row], step_log_probs(alone)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("family", "head"), pairs(ENCODER_DECODERS))
def test_decoder_prompt(family: str, head: str) -> None:
    """A prompt for the decoder, longer than the window of the multiple inputs."""
    model, ids = headed(family, head), prompt()
    out = generated(model, ids, decoder_input_ids=prompt(2, 5, seed=4), max_new_tokens=NEW, num_beams=4)
    assert_as_recomputed(model, out, {"input_ids": ids})


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head"), pairs({"gpt2": DECODERS["gpt2"], "t5": ENCODER_DECODERS["t5"]}))
def test_sequences_that_end_early(family: str, head: str) -> None:
    """Finished rows go on as padding and change nothing of the others."""
    model, ids = headed(family, head), prompt(3)
    free = generated(model, ids, max_new_tokens=NEW).sequences
    end = int(free[0, -NEW + 1])
    out = generated(model, ids, max_new_tokens=NEW, eos_token_id=end)
    uncached = generated(model, ids, max_new_tokens=NEW, eos_token_id=end, use_cache=False)
    assert out.sequences.tolist() == uncached.sequences.tolist()
    for row in range(3):
        alone = model.generate(ids[row : row + 1], max_new_tokens=NEW, eos_token_id=end)[0]
        assert out.sequences[row, : len(alone)].tolist() == alone.tolist()


@pytest.mark.few(9)
@pytest.mark.parametrize(("family", "head"), pairs({"gpt2": DECODERS["gpt2"], "t5": ENCODER_DECODERS["t5"]}))
def test_one_token_prompt(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt(2, 1)
    out = generated(model, ids, max_new_tokens=NEW, num_beams=2)
    assert_as_recomputed(model, out, {"input_ids": ids})
