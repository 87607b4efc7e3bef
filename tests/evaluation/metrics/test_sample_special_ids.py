from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.metrics import Sample
from nextword.evaluation.metrics.sample import before_special
from tests.helpers.measuring import Vocabulary

CASES = [
    ([], []),
    ([5], [5]),
    ([0, 1], []),
    ([5, 6, 1, 0, 0], [5, 6]),
    ([0, 5, 1, 6], [5]),
    ([0, 0, 5, 6], [5, 6]),
]


@pytest.mark.parametrize(("tokens", "text"), CASES)
def test_by_hand(tokens: list[int], text: list[int]) -> None:
    assert before_special(np.array(tokens, dtype=np.int64), {0, 1}).tolist() == text
    assert before_special(np.array(tokens, dtype=np.int64), frozenset()).tolist() == tokens


@pytest.mark.parametrize(("tokens", "text"), CASES)
def test_every_text_of_a_sample_ends_where_its_ids_do(tokens: list[int], text: list[int]) -> None:
    given = {"token_ids": tokens, "prompt_token_ids": tokens, "reference_token_ids": [tokens, [7]]}
    sample = Sample.model_validate(given).bound("x.jsonl, line 1", Vocabulary(special=[0, 1]))
    assert sample.tokens.tolist() == sample.prompt_tokens.tolist() == text
    assert [ids.tolist() for ids in sample.reference_tokens] == [text, [7]]
