"""LogicNLG's BLEU against nltk, which the published script asks."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import corpus_bleu, sentence_bleu

from nextword.evaluation.metrics import Sample, Setup, UndefinedError, parse_metric, registry
from nextword.evaluation.metrics.bleu import WEIGHTS, bleu_logicnlg
from tests.helpers.real_data import real_data

texts = st.lists(st.sampled_from(["a", "A", "b", "the", "cat", "3.5", ""]), max_size=9).map(" ".join)
corpora = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5)

Samples = list[tuple[str, list[str]]]


def cut(samples: Samples) -> Iterator[tuple[list[list[str]], list[str]]]:
    """As the script does: references at single spaces, texts at white space."""
    for text, references in samples:
        yield [reference.lower().split(" ") for reference in references], text.lower().split()


def by_sentence(samples: Samples) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            float(np.mean([sentence_bleu(found, text, weights=weights) for found, text in cut(samples)]))
            for weights in WEIGHTS
        ]


def by_corpus(samples: Samples) -> list[float]:
    found, written = zip(*cut(samples), strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [float(corpus_bleu(found, written, weights=weights)) for weights in WEIGHTS]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(corpora)
def test_equals_nltk(samples: Samples) -> None:
    written, found = zip(*samples, strict=True)
    assert bleu_logicnlg(written, found) == pytest.approx(by_sentence(samples), abs=1e-12)
    assert bleu_logicnlg(written, found, "corpus") == pytest.approx(by_corpus(samples), abs=1e-12)


def test_published_system_outputs() -> None:
    """The outputs of LogicNLG's GPT-2 on the first 50 tables, where both forms differ by several points."""
    tables = json.loads(real_data("logicnlg/test_lm.json").read_text(encoding="utf-8"))
    outputs = json.loads(real_data("logicnlg/test_model_outputs.json").read_text(encoding="utf-8"))["GPT2"]
    samples = [(text, [row[0] for row in tables[name]]) for name, found in outputs.items() for text in found]
    written, found = zip(*samples, strict=True)
    sentence, corpus = bleu_logicnlg(written, found), bleu_logicnlg(written, found, "corpus")
    assert sentence == pytest.approx(by_sentence(samples), abs=1e-12)
    assert corpus == pytest.approx(by_corpus(samples), abs=1e-12)
    assert corpus[2] - sentence[2] > 0.05


def test_by_hand() -> None:
    # "a b b x" against "a b c" and "b b": 1-grams a, b, b of 4; 2-grams ab, bb of 3; 3-grams none of 2.
    # Closest length: 3, so nothing is taken off.
    one, two, three = bleu_logicnlg(["A b b x"], [["a b c", "b b"]])
    assert (one, two, three) == pytest.approx((3 / 4, np.sqrt(3 / 4 * 2 / 3), 0))
    # Against "a b b y z" also 3-gram abb of 2, and 4 tokens against 5: exp(1 - 5/4). Weights of 0.33 each.
    three = bleu_logicnlg(["a b b x"], [["a b b y z"]])[2]
    assert three == pytest.approx(np.exp(-1 / 4) * (3 / 4 * 2 / 3 * 1 / 2) ** 0.33)


@pytest.mark.parametrize(("text", "expected"), [("", (0, 0, 0)), ("a", (1, 0, 0)), ("b", (0, 0, 0))])
def test_short_texts(text: str, expected: tuple[float, ...]) -> None:
    assert bleu_logicnlg([text], [["a"]]) == expected


def test_korean() -> None:
    found = bleu_logicnlg(["이 영화는 정말 재미있다"], [["이 영화는 정말 지루했다"]])
    assert found == pytest.approx((3 / 4, np.sqrt(3 / 4 * 2 / 3), (3 / 4 * 2 / 3 * 1 / 2) ** 0.33))


@pytest.mark.parametrize("level", ["sentence", "corpus"])
def test_metric(level: str) -> None:
    samples = [("the cat sat", ["the cat sat down", "a cat"]), ("", ["x"]), ("dogs bark", ["the cat sat", "dogs"])]
    metric = registry.get("bleu-logicnlg")(parse_metric({"metric": "bleu-logicnlg", "level": level}), Setup())
    for text, references in samples:
        metric.add(Sample(text=text, references=references))
    scores = metric.result()
    expected = by_sentence(samples) if level == "sentence" else by_corpus(samples)
    assert list(scores) == ["bleu-logicnlg-1", "bleu-logicnlg-2", "bleu-logicnlg-3"]
    assert [score.value for score in scores.values()] == pytest.approx(expected, abs=1e-12)
    for score in scores.values():
        assert score.n == 3
        assert score.statistic is not None
        assert len(score.statistic.parts) == 3


def test_range_and_order_of_samples() -> None:
    samples = [("a b c", ["a b", "c"]), ("b", ["b"]), ("c c", ["a"])]
    written, found = zip(*samples, strict=True)
    for level in ("sentence", "corpus"):
        values = bleu_logicnlg(written, found, level)
        assert all(0 <= value <= 1 for value in values)
        assert values == pytest.approx(bleu_logicnlg(written[::-1], found[::-1], level), abs=1e-12)
        assert bleu_logicnlg(["a b c d"], [["a b c d"]], level) == (1, 1, 1)


def test_nothing_to_measure() -> None:
    with pytest.raises(UndefinedError, match="there are no texts"):
        registry.get("bleu-logicnlg")(parse_metric("bleu-logicnlg"), Setup()).result()
    with pytest.raises(ValueError, match="no texts"):
        bleu_logicnlg([], [])


def test_unknown_level() -> None:
    with pytest.raises(ValueError, match=r"bleu-logicnlg\.level:.*'sentence'"):
        parse_metric({"metric": "bleu-logicnlg", "level": "text"})
