"""The weights of an n-gram index, chosen by nw.calibrate: those of the fit, with what they gain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nextword as nw
from nextword.heads.ngram import with_ngrams
from nextword.retrieval.ngram import MatchWeights, NgramIndex, NgramModel, head_alone
from tests.helpers.stored_texts import built
from tests.helpers.word_models import TEXT, WORDS, word_model, word_tokenizer

pytest.importorskip("pydivsufsort")

TOKENIZER = word_tokenizer()


def index_of(folder: Path, texts: list[str]) -> NgramIndex:
    return built(folder, [TOKENIZER(text)["input_ids"] for text in texts], 48)


def held_out() -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 6)) + " " + TEXT.partition(" it ")[0] for _ in range(4)]


def test_shares_are_set_and_gain_what_is_said(tmp_path: Path) -> None:
    model = nw.attach(word_model(n_positions=64), "softmax")
    alone = nw.score(model, TOKENIZER, held_out()).nll
    with with_ngrams(model, NgramModel(index_of(tmp_path, [TEXT]), MatchWeights(shares=head_alone()))):
        results = nw.calibrate(model, held_out(), TOKENIZER)
        assert results.helps
        assert results.nll_without == pytest.approx(alone, abs=1e-9)
        assert model.next_word_head.memory.weights.shares == results.settings["shares"]
        assert nw.score(model, TOKENIZER, held_out()).nll == pytest.approx(results.nll, abs=1e-9)
        assert results.gain == pytest.approx(alone - results.nll)


def test_a_corpus_that_does_not_help_is_silent(tmp_path: Path) -> None:
    model = nw.attach(word_model(n_positions=64), "softmax")
    index = index_of(tmp_path, [" ".join(reversed(WORDS))])
    with with_ngrams(model, NgramModel(index, MatchWeights(shares=head_alone()))):
        results = nw.calibrate(model, " ".join(WORDS), TOKENIZER)
    assert not results.helps
    assert results.settings == {"shares": head_alone()}
    assert results.nll == results.nll_without
