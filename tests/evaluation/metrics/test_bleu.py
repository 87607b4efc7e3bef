"""BLEU against sacrebleu's own corpus score."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from nextword.evaluation.metrics import Sample, Score, Setup, UndefinedError, parse_metric, registry
from nextword.evaluation.metrics.bleu import bleu, bleu_of_sums
from tests.helpers.real_data import real_data

texts = st.lists(st.sampled_from(["a", "b", "the", "The", "cat,", "sat.", "U.S.", "3.5"]), max_size=12).map(" ".join)
corpora = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=6)

Samples = list[tuple[str, list[str]]]


def measured(samples: Samples, **config: Any) -> dict[str, Score]:
    metric = registry.get("bleu")(parse_metric({"metric": "bleu", **config}), Setup())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text, references in samples:
            metric.add(Sample(text=text, references=references))
        return metric.result()


def published(samples: Samples, n: int, **settings: Any) -> float:
    """sacrebleu's corpus score; its references are transposed, and None where there are fewer."""
    most = max(len(references) for _, references in samples)
    streams = [[found[k] if k < len(found) else None for _, found in samples] for k in range(most)]
    return float(BLEU(max_ngram_order=n, **settings).corpus_score([text for text, _ in samples], streams).score) / 100


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(corpora)
def test_equals_sacrebleu(samples: Samples) -> None:
    samples = [*samples, ("a b c d e", ["a b c d"])]
    for n, key in enumerate(found := measured(samples), 1):
        assert found[key].value == pytest.approx(published(samples, n), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(corpora)
def test_short_texts_and_settings_equal_sacrebleu(samples: Samples) -> None:
    """Without a long text among them, so that whole orders of n-grams are missing."""
    assume(any(reference.strip() for _, found in samples for reference in found))
    for tokenize, lowercase in (("13a", True), ("char", False), ("none", False), ("intl", False)):
        found = measured(samples, tokenize=tokenize, lowercase=lowercase)
        expected = [published(samples, n, tokenize=tokenize, lowercase=lowercase) for n in (1, 2, 3, 4)]
        assert [score.value for score in found.values()] == pytest.approx(expected, abs=1e-12)


def test_by_hand() -> None:
    # "the" occurs 3 times, in the references at most twice: p_1 = 2/3; 2-grams "the the" twice, once found: p_2 = 1/2.
    # 3 tokens against 4: brevity exp(1 - 4/3).
    value, counts = bleu(["the the the"], [["the the cat sat", "the"]], n=2)
    assert counts.tolist() == [[3, 4, 2, 1, 3, 2]]
    assert value == pytest.approx(np.exp(1 - 4 / 3) * np.sqrt(2 / 3 * 1 / 2))


def test_sums_are_divided_once() -> None:
    # 1 of 1 and 1 of 9 words are right: 2/10 over the corpus, not the mean of 1 and 1/9.
    samples = [("a", ["a"]), ("a x x x x x x x x", ["a b c d e f g h i"])]
    assert measured(samples, n=(1,))["bleu-1"].value == pytest.approx(0.2)


@given(corpora)
@settings(max_examples=30, deadline=None)
def test_range_order_and_drawn_samples(samples: Samples) -> None:
    samples = [*samples, ("a b c", ["a b"])]
    found, turned = measured(samples), measured(samples[::-1])
    draws = np.random.default_rng(0).integers(0, len(samples), (5, len(samples)))
    for n, (key, score) in enumerate(found.items(), 1):
        assert 0 <= score.value <= 1 + 1e-12
        assert score.value == pytest.approx(turned[key].value, abs=1e-12)
        assert score.statistic is not None
        again = score.statistic.combine(score.statistic.parts[draws].sum(axis=1))
        assert again.tolist() == pytest.approx([published([samples[i] for i in draw], n) for draw in draws], abs=1e-12)


def test_identity_is_one_and_empty_texts_are_zero() -> None:
    assert measured([("a b c d", ["x", "a b c d"])])["bleu-4"].value == pytest.approx(1)
    assert [score.value for score in measured([("", ["a b"])]).values()] == [0, 0, 0, 0]
    assert [score.value for score in measured([("a", ["a"])]).values()] == [1, 0, 0, 0]  # no 2-grams at all


@pytest.mark.parametrize("samples", [[], [("a", [""])]])
def test_no_reference_with_a_word_has_no_value(samples: Samples) -> None:
    with pytest.raises(UndefinedError, match="at least one reference must have a word"):
        measured(samples)


def test_korean() -> None:
    # 3 of 4 words, 2 of 3 pairs.
    found = measured([("이 영화는 정말 재미있다", ["이 영화는 정말 지루했다"])], n=(1, 2))
    assert [score.value for score in found.values()] == pytest.approx([3 / 4, np.sqrt(3 / 4 * 2 / 3)])


def test_korean_reviews() -> None:
    lines = real_data("korean/nsmc_raw_test.tsv").read_text(encoding="utf-8").splitlines()[1:101]
    reviews = [line.split("\t")[3] for line in lines]
    samples = [(text, [other]) for text, other in zip(reviews, reviews[1:] + reviews[:1], strict=True)]
    assert measured(samples)["bleu-1"].value == pytest.approx(published(samples, 1), abs=1e-12)
    assert measured([(text, [text]) for text in reviews])["bleu-4"].value == pytest.approx(1)


def test_the_unit_is_sacrebleus_signature() -> None:
    unit = measured([("a", ["a", "b"])], lowercase=True, tokenize="intl")["bleu-1"].measure.unit
    assert unit.startswith("fraction (sacrebleu case:lc|eff:no|tok:intl|smooth:exp|version:")


def test_smoothing_of_the_second_missing_order() -> None:
    # 2- and 3-grams are all missed: 1/2 and 1/4 of one of 3 and of 2.
    sums = np.array([4.0, 4, 4, 0, 0, 4, 3, 2])
    assert bleu_of_sums(sums, 3) == pytest.approx((1 * (1 / 6) * (1 / 8)) ** (1 / 3))


@pytest.mark.parametrize("config", [{"n": (0,)}, {"n": ()}, {"tokenize": "ja-mecab"}])
def test_bad_settings(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"bleu\.{next(iter(config))}"):
        measured([("a", ["a"])], **config)
