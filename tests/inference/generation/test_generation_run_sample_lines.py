from __future__ import annotations

import pytest
import torch

from nextword.inference.generation.generation_run import reference_columns as columns_of
from nextword.inference.generation.prompts import TextPrompt, encode_prompts
from tests.helpers.writing_models import opened_model, tokenizer

PROMPTS = [
    TextPrompt("The king", references=(" met a dragon", " slept"), id=0),
    TextPrompt("a", references=(" b",), id=1),
]


def reference_columns(opened, prompts, scored, batch_size):
    return columns_of(opened, encode_prompts(opened, prompts), scored, batch_size)


def test_references_come_with_their_tokens():
    found = reference_columns(opened_model(), PROMPTS, False, 2)
    assert found[0]["references"] == [" met a dragon", " slept"]
    ids = [tokenizer()(text)["input_ids"] for text in (" met a dragon", " slept")]
    assert found[0]["reference_token_ids"] == ids
    assert set(found[0]) == {"references", "reference_token_ids"}
    assert reference_columns(opened_model(), [TextPrompt("a")], False, 2) == {}


@torch.no_grad()
def test_log_probs_of_the_first_reference_are_teacher_forced():
    opened = opened_model(head="cache")
    found = reference_columns(opened, PROMPTS, True, 2)
    ids = [tokenizer().bos_token_id, *tokenizer()("The king met a dragon")["input_ids"]]
    target = found[0]["target_token_ids"]
    begin = len(ids) - len(target)
    assert ids[begin:] == target
    log_probs = opened.model.distribution(torch.tensor([ids])).log_probs()[begin - 1 : -1]
    expected = log_probs.gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
    assert found[0]["log_probs"] == pytest.approx(expected, abs=1e-6)
    assert found[0]["target_bytes"] == len(" met a dragon")


@pytest.mark.parametrize("scored", [False, True])
def test_a_reference_that_is_missing_is_an_error(scored):
    with pytest.raises(ValueError, match="prompt 7: has no reference"):
        reference_columns(opened_model(), [*PROMPTS, TextPrompt("a", id=7)], scored, 2)
    with pytest.raises(ValueError, match="prompt 7: has no reference"):
        reference_columns(opened_model(), [TextPrompt("a", id=7)], True, 2)
