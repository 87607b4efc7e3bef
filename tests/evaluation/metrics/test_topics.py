"""Topic match: scipy and scikit-learn put together anew, and texts whose topics are plain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer

from nextword.evaluation.metrics import Sample, Score, Setup, UndefinedError, parse_metric, registry
from nextword.evaluation.metrics.topics import Topics, jensen_shannon, read_corpus
from tests.helpers.real_data import real_data

CATS = ["the cat purrs and sleeps", "a cat sleeps on the sofa", "cats and kittens purr", "the kittens sleep on a sofa"]
STOCKS = ["stocks fell and bonds rose", "bonds rose as stocks fell", "the market fell again", "a market of bonds rose"]

Samples = list[tuple[str, list[str]]]
distributions = arrays(np.float64, 5, elements=st.floats(0.001, 1)).map(lambda weights: weights / weights.sum())


def measured(samples: Samples, **config: Any) -> Score:
    settings = {"topics": 2, "min_df": 1, **config}
    metric = registry.get("topics")(parse_metric({"metric": "topics", **settings}), Setup())
    for text, references in samples:
        metric.add(Sample(text=text, references=references))
    return metric.result()["topics-jsd"]


@given(distributions, distributions)
def test_divergence_is_scipys_squared(p: np.ndarray, q: np.ndarray) -> None:
    found = jensen_shannon(p, q)
    if np.abs(p - q).max() > 1e-6:  # scipy's is NaN where rounding makes a tiny negative number
        assert found == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)
    assert 0 <= found <= 1
    assert found == pytest.approx(jensen_shannon(q, p), abs=1e-15)
    assert jensen_shannon(p, p) == 0


def test_divergence_by_hand() -> None:
    # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4): log2(4/3) / 2 + (log2(2/3) + log2(2)) / 4.
    expected = np.log2(4 / 3) / 2 + (np.log2(2 / 3) + 1) / 4
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(expected)


def test_equals_the_recipe_of_scikit_learn_and_scipy() -> None:
    references, texts = CATS + STOCKS, STOCKS[::-1] + CATS
    vectorizer = CountVectorizer(min_df=2)
    counts = vectorizer.fit_transform(references)
    model = LatentDirichletAllocation(3, random_state=5, max_iter=7).fit(counts)
    p, q = model.transform(vectorizer.transform(texts)), model.transform(counts)
    expected = jensenshannon(p, q, base=2, axis=1) ** 2
    samples = [(text, [reference]) for text, reference in zip(texts, references, strict=True)]
    settings = {"topics": 3, "seed": 5, "min_df": 2, "iterations": 7}
    found = measured(samples, **settings)
    assert (found.value, found.n) == (pytest.approx(expected.mean(), abs=1e-12), 8)
    assert measured(samples, **settings, root=True).value == pytest.approx(np.sqrt(expected).mean(), abs=1e-12)


def test_another_topic_is_further_away_than_the_same() -> None:
    same = [(text, [text]) for text in CATS + STOCKS]
    other = list(zip(STOCKS + CATS, [[text] for text in CATS + STOCKS], strict=True))
    assert measured(same).value == 0
    assert measured(other).value > 0.3


def test_several_references_are_averaged() -> None:
    samples = [(CATS[0], [CATS[0], STOCKS[0]]), (STOCKS[1], [STOCKS[1]])]
    single = measured([(CATS[0], [STOCKS[0]]), (CATS[0], [CATS[0]]), (STOCKS[1], [STOCKS[1]])])
    parts = measured(samples).statistic
    assert parts is not None
    # The topics are fitted on the same texts, in another order: nearly the same.
    assert parts.parts[1].tolist() == [0, 1]
    assert single.value > 0


def test_empty_texts_and_unknown_words_do_not_count() -> None:
    samples = [(text, [text]) for text in CATS + STOCKS]
    found = measured([*samples, ("", [CATS[0]]), ("zebra", [CATS[0]]), ("cat", ["", "!"])])
    assert (found.value, found.n) == (0, 8)
    assert found.statistic is not None
    assert found.statistic.parts[8:].tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "no word occurs in 2 of the 0 documents"),
        ([("a cat", ["a cat"])], "no word occurs in 2 of the 1 documents"),
        ([("cat", ["cat"]), ("dog", ["dog"])], "no word occurs in 2 of the 2 documents"),
        ([("mice", ["the cat"]), ("", ["the cat"])], "no sample has a value"),
    ],
)
def test_no_vocabulary_has_no_value(samples: Samples, message: str) -> None:
    with pytest.raises(UndefinedError, match=message):
        measured(samples, min_df=2)


def test_the_seed_decides_and_settings_are_named() -> None:
    samples = [(text, [reference]) for text, reference in zip(CATS + STOCKS, STOCKS + CATS, strict=True)]
    assert measured(samples, seed=3).value == measured(samples, seed=3).value
    assert measured(samples, seed=3).measure.unit == "bits (2 topics, seed 3)"
    assert "square root of bits" in measured(samples, root=True).measure.unit


def test_korean_words_count() -> None:
    films = ["영화 배우 연기 최고", "배우 연기 영화 감동"] * 2
    foods = ["김치 찌개 맛있다 식당", "식당 김치 맛있다 점심"] * 2
    same = [(text, [text]) for text in films + foods]
    crossed = [(text, [other]) for text, other in zip(films + foods, foods + films, strict=True)]
    assert measured(same, min_df=2).value == 0
    assert measured(crossed, min_df=2).value > 0.3


def test_korean_reviews() -> None:
    lines = real_data("korean/nsmc_raw_test.tsv").read_text(encoding="utf-8").splitlines()[1:201]
    reviews = [line.split("\t")[3] for line in lines]
    found = measured([(text, [other]) for text, other in zip(reviews[::2], reviews[1::2], strict=True)], min_df=2)
    assert 0 < found.value < 1
    assert 0 < found.n < 100  # short reviews without a word of two documents have no topics


def test_topics_of_another_corpus(tmp_path: Path) -> None:
    plain, lines = tmp_path / "articles.txt", tmp_path / "articles.jsonl"
    plain.write_text("\n".join([*CATS, "", *STOCKS]), encoding="utf-8")
    lines.write_text('"one cat"\n\n{"text": "two\\ncats", "id": 1}\n', encoding="utf-8")
    assert read_corpus(lines) == ["one cat", "two\ncats"]
    assert read_corpus(plain) == CATS + STOCKS
    found = measured([("cats sleep", ["stocks fell"])], corpus=str(plain))  # one sample alone would not do
    assert found.value > 0
    assert "fitted on articles.txt" in found.measure.meaning


@pytest.mark.parametrize("mark", ["\u2028", "\u0085", "\x0c", "\x1c"])
def test_a_document_is_a_line_of_the_file(mark: str, tmp_path: Path) -> None:
    plain, lines = tmp_path / "corpus.txt", tmp_path / "corpus.jsonl"
    plain.write_bytes(f"one{mark}cat\r\ntwo cats\n".encode())
    assert read_corpus(plain) == [f"one{mark}cat", "two cats"]
    lines.write_text(json.dumps(f"one{mark}cat", ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_corpus(lines) == [f"one{mark}cat"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"corpus\.jsonl:1: no JSON"),
        ('\n{"body": ""}', r'corpus\.jsonl:2: must be a JSON string or .* "text"'),
    ],
)
def test_broken_corpus_names_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        measured([], corpus=str(path))
    with pytest.raises(ValueError, match=r"topics\.corpus: .*nowhere\.txt cannot be read"):
        measured([], corpus=str(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize("config", [{"topics": 1}, {"min_df": 0}, {"iterations": 0}, {"jobs": 0}])
def test_bad_settings(config: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=rf"topics\.{next(iter(config))}: must be at least"):
        measured([], **config)


def test_a_text_without_known_words_has_no_distribution() -> None:
    shares = Topics(CATS + STOCKS, topics=2).of([CATS[0], "zebra", ""])
    assert shares[0].sum() == pytest.approx(1)
    assert np.isnan(shares[1:]).all()
