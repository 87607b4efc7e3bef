"""nw.calibrate on rows of token ids, for a model without a tokenizer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nextword as nw
from tests.helpers.families import START
from tests.helpers.word_models import word_model, word_tokenizer

TOKENIZER = word_tokenizer()
REPEATED = " ".join(["the king sat on a horse and the queen saw it"] * 4)


def attached() -> Any:
    return nw.attach(word_model(n_positions=64), "cache").eval()


def test_ids_of_a_text_give_what_the_text_gives() -> None:
    by_text, by_ids = attached(), attached()
    of_text = nw.calibrate(by_text, REPEATED, TOKENIZER)
    ids = torch.tensor([[START, *TOKENIZER(REPEATED, add_special_tokens=False)["input_ids"]]])
    of_ids = nw.calibrate(by_ids, ids)
    assert (of_ids.tokens, of_ids.passes) == (of_text.tokens, 1)
    assert of_ids.nll == pytest.approx(of_text.nll, abs=1e-9)
    assert of_ids.gain > 0.1
    assert by_ids.next_word_head.config == by_text.next_word_head.config


def test_rows_are_read_apart() -> None:
    model = attached()
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8], [9, 10, 11, 12, 9, 10, 11, 12]])
    results = nw.calibrate(model, ids, batch_size=1)
    with torch.no_grad():
        losses = [model(input_ids=row[None], labels=row[None]).loss.item() for row in ids]
    assert results.tokens == 14
    assert results.nll == pytest.approx(sum(losses) / 2, abs=1e-6)


@pytest.mark.parametrize(
    ("ids", "settings", "said"),
    [
        (torch.tensor([5, 6]), {}, r"rows of whole numbers.*\(2,\) given"),
        (torch.ones(1, 4), {}, "rows of whole numbers"),
        (torch.tensor([[5, 6]]), {"window": 4}, "each row is read in one piece"),
    ],
)
def test_what_are_no_rows_is_refused(ids: torch.Tensor, settings: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        nw.calibrate(attached(), ids, **settings)


def test_a_plain_model_is_refused() -> None:
    with pytest.raises(ValueError, match="must be texts, not token ids, unless the model is attached"):
        nw.calibrate(word_model(), torch.tensor([[5, 6]]))
