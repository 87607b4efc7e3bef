"""Texts scored with an n-gram index: the mixture's own numbers, weights that help, texts that are stored."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.inference.datastore import fit_to_texts, score_with_ngrams, store_texts
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.retrieval.ngram import NgramIndex, NgramModel
from tests.helpers.stored_texts import scanned_mixture
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer

pytest.importorskip("pydivsufsort")

TOKENIZER = word_tokenizer()
STORED = [TEXT, "the old dog ran far and the queen saw it", "a horse saw a horse"]
HELD_OUT = "the old dog sat on a horse and the king saw the queen ran far and the queen sat on a dog far"


def given(*texts: str) -> GivenTexts:
    return GivenTexts.of([Example(text, id=f"text {number}") for number, text in enumerate(texts, 1)], ["texts"])


def opened(head: str = "softmax") -> OpenedModel:
    return OpenedModel.of(nw.attach(word_model(), head), TOKENIZER, name="tiny")


@pytest.fixture
def index(tmp_path: Path) -> NgramIndex:
    store_texts(TOKENIZER, given(*STORED), tmp_path / "memory")
    return NgramIndex(tmp_path / "memory")


def other_texts(count: int) -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 12)) + " the king sat on a horse and the queen" for _ in range(count)]


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_scores_are_those_of_the_mixture_by_scanning(index: NgramIndex, head: str) -> None:
    one = opened(head)
    weights = fit_to_texts(one, index, given(*other_texts(4)), ScoreSettings())
    results = score_with_ngrams(one, NgramModel(index, weights), given(HELD_OUT), ScoreSettings(window=16, stride=8))
    assert [score.name for score in results.models] == ["tiny", "tiny+text"]
    assert results["tiny"].nll == pytest.approx(nw.score(one, texts=HELD_OUT, window=16, stride=8).nll, rel=1e-12)
    documents = [TOKENIZER(text)["input_ids"] for text in STORED]
    ids = [TOKENIZER.bos_token_id, *TOKENIZER(HELD_OUT)["input_ids"]]
    nats, window = 0.0, 16
    for target in range(1, len(ids)):
        # the first window scores 16 tokens, the next ones 8 with 16 before them at most
        end = target if target <= window else min(window + math.ceil((target - window) / 8) * 8, len(ids) - 1)
        begin = max(0, end - window) if target > window else 0
        seen = ids[begin:target]
        probs = one.model.distribution(torch.tensor([seen])).probs()[-1].detach().numpy()
        nats -= math.log(scanned_mixture(documents, seen, probs, weights)[ids[target]])
    assert results["tiny+text"].nll == pytest.approx(nats / (len(ids) - 1), rel=1e-10)
    assert results["tiny+text"].nll < results["tiny"].nll


def test_weights_say_what_they_were_fitted_to(index: NgramIndex) -> None:
    weights = fit_to_texts(opened(), index, given(*other_texts(3)), ScoreSettings(limit=30))
    assert (weights.model, weights.data, weights.tokens) == ("tiny", ["texts"], 30)
    assert weights.tokenizer == index.manifest.tokenizer
    assert weights == fit_to_texts(opened(), index, given(*other_texts(3)), ScoreSettings(limit=30))


def test_a_planted_text_is_refused_unless_asked_for(index: NgramIndex) -> None:
    one, settings = opened(), ScoreSettings()
    with pytest.raises(ValueError, match="n-gram index"):
        fit_to_texts(one, index, given(HELD_OUT, TEXT), settings)
    weights = fit_to_texts(one, index, given(HELD_OUT, TEXT), settings, stored=True)
    memory = NgramModel(index, weights)
    with pytest.raises(ValueError, match="n-gram index"):
        score_with_ngrams(one, memory, given(HELD_OUT, TEXT), settings)
    assert score_with_ngrams(one, memory, given(TEXT), settings, stored=True)["tiny+text"].nll < 1


def test_a_memory_of_another_tokenizer_is_refused(index: NgramIndex) -> None:
    other = OpenedModel.of(nw.attach(word_model(), "softmax"), word_tokenizer(WORDS[:8]), name="other")
    with pytest.raises(ValueError, match=r"model's tokenizer \(it was made"):
        fit_to_texts(other, index, given(HELD_OUT), ScoreSettings())
