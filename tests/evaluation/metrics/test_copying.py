from __future__ import annotations

import numpy as np
import pytest

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.copying import CopyingSum, frequent_words, words
from tests.helpers.measuring import KOREAN, measured, values


def test_words_are_runs_of_letters_and_digits():
    assert words("O'Neill's CO2, 3.5 km_s — Ärger!") == ["o", "neill", "s", "co2", "3", "5", "km", "s", "ärger"]
    assert words("<unk> and <extra_id_0> < b >") == ["and", "b"]
    assert words("서울 은 크다 .") == ["서울", "은", "크다"]


def test_frequent_words_with_ties_in_order_of_the_alphabet():
    texts = ["b a a", "c B"]
    assert frequent_words(texts, 1) == {"a"}
    assert frequent_words(texts, 2) == {"a", "b"}
    assert frequent_words(texts, 0) == frozenset()
    assert frequent_words(texts, 99) == {"a", "b", "c"}


def test_shares_are_of_sums_over_distinct_words():
    total = CopyingSum()
    # wanted: a b; copied: a, twice said; right: a
    total.add("a b c", "a b x", "a a y")
    # wanted: d; copied: d e f; right: d
    total.add("d e f", "d", "d e f")
    assert (total.wanted, total.copied) == (3, 4)
    assert total.recall() == pytest.approx(2 / 3)
    assert total.precision() == pytest.approx(2 / 4)


def test_words_left_out_count_nowhere():
    total = CopyingSum(frozenset({"the"}))
    total.add("The fox saw the hen", "the hen", "the fox")
    assert (total.recall(), total.precision()) == (0.0, 0.0)
    assert (total.wanted, total.copied) == (1, 1)


def test_a_perfect_output_copies_everything_and_nothing_else():
    total = CopyingSum()
    for source, reference in [("a b c", "b c z"), ("d e", "d")]:
        total.add(source, reference, reference)
    assert (total.recall(), total.precision()) == (1.0, 1.0)
    assert total.recall_interval() == (1.0, 1.0)


def test_a_share_of_nothing_is_not_known():
    total = CopyingSum()
    total.add("a", "b", "c")
    total.add("a", "b", "d")
    assert (total.recall(), total.precision()) == (None, None)
    assert total.recall_interval() is None
    assert CopyingSum().recall_interval() is None


def test_interval_draws_examples_and_not_words():
    rng = np.random.default_rng(0)
    total = CopyingSum()
    for _ in range(100):
        # all ten words of an example are copied, or none: as much is known as from 100 words, not from 1000
        source = "a b c d e f g h i j"
        total.add(source, source, source if rng.random() < 0.5 else "")
    low, high = total.recall_interval()
    assert low < total.recall() < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.25 / 100), rel=0.2)


def test_interval_with_examples_without_such_words():
    total = CopyingSum()
    for number in range(40):
        total.add("a", "a" if number % 4 == 0 else "", "a" if number % 8 == 0 else "")
    low, high = total.recall_interval()
    assert 0 <= low < total.recall() == 0.5 < high <= 1


def sample(source: str, reference: str, text: str) -> dict[str, str]:
    return {"source": source, "reference": reference, "text": text}


def test_samples_give_the_same_as_examples():
    samples = [sample("a b c", "a b x", "a a y"), sample("d e f", "d", "d e f")]
    scores = measured("copying", samples)
    assert {key: (score.value, score.n) for key, score in scores.items()} == {
        "copy_recall": (pytest.approx(2 / 3), 3),
        "copy_precision": (pytest.approx(2 / 4), 4),
    }
    assert len(scores["copy_recall"].statistic.parts) == 2


def test_only_the_first_reference_counts():
    several = {"source": "a b", "references": ["a", "b"], "text": "a"}
    assert values("copying", [several]) == {"copy_recall": 1.0, "copy_precision": 1.0}
    # People, against the second reference: "a" is not in it, and "b" is not copied.
    assert values("copying", [several], human=True) == {"copy_recall": 0.0, "copy_precision": 0.0}


def test_words_can_be_left_out_of_samples():
    setting = {"metric": "copying", "leave_out": ("the",)}
    scores = measured(setting, [sample("The fox saw the hen", "the hen", "the fox hen")])
    assert {key: score.value for key, score in scores.items()} == {"copy_recall": 1.0, "copy_precision": 0.5}
    assert "1 words left out" in scores["copy_recall"].measure.unit
    with pytest.raises(ValueError, match=r"must contain words.*'The' given"):
        measured({"metric": "copying", "leave_out": ("The",)}, [])


def test_korean_samples_are_copied_by_people():
    found = values("copying", [sample(text + " 그리고", text, "") for text in KOREAN], human=True)
    assert found == {"copy_recall": 1.0, "copy_precision": 1.0}


def test_a_share_of_nothing_is_left_out():
    assert values("copying", [sample("a", "a", "z")]) == {"copy_recall": 0.0}
    assert values("copying", [sample("a", "z", "a")]) == {"copy_precision": 0.0}
    with pytest.raises(UndefinedError, match="no source word"):
        measured("copying", [sample("a", "b", "")])
    with pytest.raises(MissingFieldError, match="'source'"):
        measured("copying", [{"text": "a", "reference": "a"}])
