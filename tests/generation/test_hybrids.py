"""Linear attention and state-space layers: what a head remembers travels with their states."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from tests.helpers.generating_models import HYBRIDS, MODES, NEW, backbone, crossed, headed, left_padded, pairs, prompt
from tests.helpers.recomputation import assert_as_recomputed, generated, step_log_probs

TOLERANCE = 1e-4
"""In single precision, on log-probabilities that reach down to -30."""
SOME_MODES = {name: name for name in ("greedy", "best beams", "samples")}


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head", "mode"), crossed(pairs(HYBRIDS), SOME_MODES))
def test_mode(family: str, head: str, mode: str) -> None:
    model, ids = headed(family, head), prompt()
    cached = generated(model, ids, max_new_tokens=NEW, **MODES[mode])
    uncached = generated(model, ids, max_new_tokens=NEW, use_cache=False, **MODES[mode])
    assert cached.past_key_values is not None
    assert uncached.past_key_values is None
    assert cached.sequences.tolist() == uncached.sequences.tolist()
    rounding = 4 * backbone_gap(model, cached.sequences, ids)
    assert_as_recomputed(model, cached, {"input_ids": ids}, max(TOLERANCE, rounding))


def backbone_gap(model: nw.NextWordModel, sequences: Tensor, ids: Tensor) -> float:
    """How far the backbone alone is from itself, step by step with its cache and in one pass over the same texts.

    On some texts a layer of a hybrid divides by next to nothing, and its states differ by a hundred times more than on
    others; no head can be nearer to the whole text than the states that it gets.
    """
    again: Any = model.backbone
    steps = generated(
        again,
        sequences[:, : ids.shape[1]],
        max_new_tokens=sequences.shape[1] - ids.shape[1],
        prefix_allowed_tokens_fn=lambda row, before: [int(sequences[row, len(before)])],
    )
    assert steps.sequences.tolist() == sequences.tolist()
    with torch.no_grad():
        whole = again(sequences[:, :-1], use_cache=False).logits.double().log_softmax(-1)
    return float((step_log_probs(steps) - whole[:, ids.shape[1] - 1 :]).abs().max())


@pytest.mark.few(3)
@pytest.mark.parametrize("family", HYBRIDS)
def test_left_padded_row_is_as_alone(family: str) -> None:
    model, padding = headed(family, "cache"), [0, 4, 7]
    ids, mask = left_padded(prompt(3), padding)
    batch = generated(model, ids, attention_mask=mask, max_new_tokens=NEW)
    for row, hidden in enumerate(padding):
        alone = generated(model, ids[row : row + 1, hidden:], max_new_tokens=NEW)
        assert batch.sequences[row, hidden:].tolist() == alone.sequences[0].tolist()
        torch.testing.assert_close(step_log_probs(batch)[row], step_log_probs(alone)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.few(3)
@pytest.mark.parametrize("family", HYBRIDS)
def test_goes_on_from_a_returned_cache(family: str) -> None:
    """Where a cache keeps no count of its places the head cache knows it, so that nothing is read twice."""
    model, ids = headed(family, "cache"), prompt()
    first = generated(model, ids, max_new_tokens=4)
    kept = deepcopy(first.past_key_values)
    more = generated(model, first.sequences, past_key_values=kept, max_new_tokens=4)
    assert more.sequences.tolist() == generated(model, ids, max_new_tokens=8).sequences.tolist()


@pytest.mark.few(1)
@pytest.mark.parametrize("family", HYBRIDS)
def test_is_checked_with_its_cache(family: str) -> None:
    report = nw.check(headed(family, "cache"), lengths=(6,))
    report.raise_if_failed()
    rows = {row.name: row.verdict for row in report.rows}
    assert rows["future"] == rows["padding"] == "passed"


@pytest.mark.parametrize("family", HYBRIDS)
def test_saved_and_loaded_it_says_the_same(family: str, tmp_path: Path) -> None:
    """Falcon-H1 makes a buffer of its layers when weights are initialised; Nemotron-H knows layers that most do not."""
    model, ids = headed(family, "cache"), prompt()
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded.distribution(ids).log_probs(), model.distribution(ids).log_probs())


def test_what_cannot_be_rolled_back_is_refused_as_transformers_refuses_it() -> None:
    model = headed("qwen3_next", "cache")
    with pytest.raises(ValueError, match="generation"):
        model.generate(prompt(), assistant_model=backbone("gpt2"), max_new_tokens=NEW)


def test_states_that_no_cache_holds_are_refused() -> None:
    """RecurrentGemma keeps the states of its layers in its layers: beams would leave them behind."""
    with pytest.raises(ValueError, match="RecurrentGemmaForCausalLM"):
        nw.attach(backbone("recurrent_gemma"), "cache")
