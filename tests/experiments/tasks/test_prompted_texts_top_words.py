from __future__ import annotations

import pytest
import torch

from nextword.experiments.tasks.prompted_texts import top_words
from nextword.experiments.tasks.tokenizers import word_tokenizer
from tests.helpers.fake_models import FakeDistribution


def test_words_and_sources_of_one_row_without_what_cannot_come() -> None:
    tokenizer = word_tokenizer(["Rome Oslo"])
    rome, oslo = tokenizer("Rome Oslo")["input_ids"]
    probabilities = torch.zeros(2, len(tokenizer))
    probabilities[0, rome] = 1.0
    probabilities[1, rome], probabilities[1, oslo] = 0.25, 0.75
    first, second = (top_words(FakeDistribution(probabilities.log()), row, 3, tokenizer) for row in (0, 1))
    assert {word.word: word.probability for word in first} == {"Rome": 1.0}
    # float32 logarithms and back; a quarter of each is the softmax's in the stand-in
    assert {word.word: word.probability for word in second} == pytest.approx({"Oslo": 0.75, "Rome": 0.25})
    assert [word.word for word in second] == ["Oslo", "Rome"]
    assert [word.sources["softmax"] for word in second] == pytest.approx([0.75 / 4, 0.25 / 4])
    assert [sum(word.sources.values()) for word in second] == pytest.approx([0.75, 0.25])
