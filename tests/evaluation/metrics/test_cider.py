"""CIDEr-D against the COCO caption evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.cider.cider_scorer import CiderScorer

from nextword.evaluation.metrics import Sample, Score, Setup, UndefinedError, parse_metric, registry
from nextword.evaluation.metrics.cider import cider_d
from tests.helpers.real_data import real_data

texts = st.lists(st.integers(0, 5), max_size=12)
corpora = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=2, max_size=6)

Samples = list[tuple[str, list[str]]]


def published(texts: list[str], references: list[list[str]], sigma: float = 6.0) -> np.ndarray:
    scorer = CiderScorer(sigma=sigma)  # it works for n = 4 alone
    for text, found in zip(texts, references, strict=True):
        scorer += (text, found)
    return np.asarray(scorer.compute_score()[1])


def spaced(tokens: list[int]) -> str:
    return " ".join(map(str, tokens))


def measured(samples: Samples, **config: Any) -> Score:
    metric = registry.get("cider")(parse_metric({"metric": "cider", **config}), Setup())
    for text, references in samples:
        metric.add(Sample(text=text, references=references))
    return metric.result()["cider-d"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(corpora, st.sampled_from([1.0, 6.0]))
def test_equals_the_coco_evaluation(corpus: list[tuple[list[int], list[list[int]]]], sigma: float) -> None:
    corpus = [*corpus, ([1, 2, 3], [[1, 2]])]  # the published code fails where no reference has a word
    written, found = [text for text, _ in corpus], [references for _, references in corpus]
    expected = published([spaced(text) for text in written], [[spaced(ref) for ref in refs] for refs in found], sigma)
    np.testing.assert_allclose(cider_d(written, found, 4, sigma), expected, rtol=0, atol=1e-10)


def test_equals_the_coco_evaluation_on_summaries() -> None:
    import json

    lines = real_data("faithfulness/summeval_100docs.jsonl").read_text(encoding="utf-8").splitlines()[:20]
    rows = [json.loads(line) for line in lines]
    samples = [(next(iter(row["sys_summs"].values()))["sys_summ"], row["ref_summs"]) for row in rows]
    expected = published([text for text, _ in samples], [found for _, found in samples])
    assert measured(samples, cut="spaces").value == pytest.approx(expected.mean(), abs=1e-10)


def test_by_hand() -> None:
    # N = 3, so that an n-gram weighs log 3 in one sample's references, log 3/2 in two.
    # "4 5 6" against "4 5 7": 1-grams 4 and 5 are common. 4, 5, 6 weigh log 3 each; 7, in two samples, log 3/2.
    one = 2 * np.log(3) ** 2 / (np.sqrt(3) * np.log(3) * np.sqrt(2 * np.log(3) ** 2 + np.log(1.5) ** 2))
    # 2-grams: "4 5" of two on either side, all of weight log 3: 1/2.
    expected = 10 * (one + 1 / 2) / 2
    found = cider_d([[1, 2, 3], [4, 5, 6], [7]], [[[1, 2, 3]], [[4, 5, 7]], [[6], [7]]], n=2)
    # "7" against "6" and "7": its 1-gram alone, with one of two references, and no 2-grams.
    assert found == pytest.approx([10, expected, 10 * (0 + 1 / 2) / 2])


def test_penalty_on_length_by_hand() -> None:
    # "1 1 1 1" against "1": clipped at the reference's 1, norm 4: cosine 1/4, with 3 and 0 pairs: exp(-9 / 2 / 36).
    found = cider_d([[1, 1, 1, 1], [2]], [[[1]], [[2]]], n=1)
    assert found == pytest.approx([10 * np.exp(-9 / 72) / 4, 10])


@settings(max_examples=50, deadline=None)
@given(corpora)
def test_range_order_and_names_of_tokens(corpus: list[tuple[list[int], list[list[int]]]]) -> None:
    written, found = [text for text, _ in corpus], [references for _, references in corpus]
    values = cider_d(written, found)
    assert (values >= 0).all()
    assert (values <= 10 + 1e-9).all()
    np.testing.assert_allclose(cider_d(written[::-1], found[::-1])[::-1], values, atol=1e-12)
    renamed = cider_d([[7 - t for t in x] for x in written], [[[7 - t for t in y] for y in ys] for ys in found])
    np.testing.assert_allclose(renamed, values, atol=1e-12)


def test_identity_is_ten() -> None:
    samples = [("a b c d", ["a b c d"]), ("e f g h", ["e f g h"])]
    assert measured(samples).value == pytest.approx(10)


def test_tokens_are_words_in_lower_case() -> None:
    samples = [("The cat isn't here!", ["the cat , isn't here"]), ("A dog.", ["a dog"])]
    assert measured(samples, n=2).value == pytest.approx(10)
    assert measured(samples, n=2, cut="spaces").value < 5


def test_empty_texts() -> None:
    # An empty text counts with 0; a sample without any word in its references does not count.
    found = measured([("", ["a b"]), ("c", ["c"]), ("d", ["", "!"])], n=1)
    assert (found.value, found.n) == (pytest.approx(5), 2)
    assert cider_d([[], []], [[[]], [[]]]).tolist() == [0, 0]


@pytest.mark.parametrize("samples", [[], [("a", ["a"])]])
def test_one_sample_has_no_rare_words(samples: Samples) -> None:
    with pytest.raises(UndefinedError, match="at least two samples"):
        measured(samples)


def test_korean() -> None:
    samples = [("영화가 정말 좋다", ["영화가 정말 좋다!"]), ("배우가 연기를 못한다", ["음악이 좋았다"])]
    assert measured(samples, n=3).value == pytest.approx(5)


def test_korean_reviews() -> None:
    lines = real_data("korean/nsmc_raw_test.tsv").read_text(encoding="utf-8").splitlines()[1:101]
    reviews = [line.split("\t")[3] for line in lines]
    samples = [(text, [text, other]) for text, other in zip(reviews, reviews[1:] + reviews[:1], strict=True)]
    expected = published([text for text, _ in samples], [found for _, found in samples])
    found = measured(samples, cut="spaces")
    assert found.statistic is not None
    np.testing.assert_allclose(found.statistic.parts[:, 0], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("config", [{"n": 0}, {"sigma": 0.0}, {"sigma": -1.0}])
def test_bad_settings(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cider\.(n: must be at least 1|sigma: must be more than 0) \(.* given"):
        measured([], **config)


def test_counts_that_differ() -> None:
    with pytest.raises(ValueError, match="references"):
        cider_d([[1], [2]], [[[1]]])
    with pytest.raises(ValueError, match="each text must have a reference"):
        cider_d([[1]], [[]])
