from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.unigram_kl import unigram_kl
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

PAIRS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20)
SMOOTHING = st.floats(1e-3, 10)
HUMAN, GENERATED = "kl-human-generated", "kl-generated-human"


@given(PAIRS, st.integers(0, 30), SMOOTHING)
def test_against_scipy(pairs: list[tuple[int, int]], more: int, smoothing: float) -> None:
    p, q = (np.array([pair[side] for pair in pairs] + [0] * more) + smoothing for side in (0, 1))
    expected = rel_entr(p / p.sum(), q / q.sum()).sum()
    found = unigram_kl([a for a, _ in pairs], [b for _, b in pairs], len(pairs) + more, smoothing)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found >= -1e-12


@given(PAIRS, st.integers(1, 20))
def test_zero_for_the_same_counts_and_blind_to_names(pairs: list[tuple[int, int]], more: int) -> None:
    p, q = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert unigram_kl(p, p, len(p) + more) == pytest.approx(0, abs=1e-15)
    assert unigram_kl(p[::-1], q[::-1], len(p) + more) == pytest.approx(unigram_kl(p, q, len(p) + more))


def test_by_hand_both_ways() -> None:
    # Human a a a b, written a b b b, smoothing 1 over 2 words: P = 4/6, 2/6 and Q = 2/6, 4/6.
    # KL = 4/6 ln 2 + 2/6 ln 1/2 = 1/3 ln 2, and the same the other way.
    sample = {"text": "a b b b", "reference": "a a a b"}
    found = values({"metric": "unigram-kl", "smoothing": 1.0}, [sample])
    assert found == {HUMAN: pytest.approx(math.log(2) / 3), GENERATED: pytest.approx(math.log(2) / 3)}
    # Written a a, human b, smoothing 0.5: P_human = 0.25, 0.75 and Q = 2.5/3, 0.5/3, which is not symmetric.
    found = values("unigram-kl", [{"text": "a a", "reference": "b"}])
    assert found[HUMAN] == pytest.approx(0.25 * math.log(0.25 * 3 / 2.5) + 0.75 * math.log(0.75 * 3 / 0.5))
    assert found[GENERATED] == pytest.approx(2.5 / 3 * math.log(2.5 / 3 / 0.25) + 0.5 / 3 * math.log(0.5 / 3 / 0.75))


def test_size_of_the_vocabulary_is_that_of_the_tokenizer() -> None:
    sample = {"token_ids": [1, 1], "reference_token_ids": [[2], [2]]}
    small, large = (measured("unigram-kl", [sample], Vocabulary(size=size)) for size in (None, 1000))
    assert small[HUMAN].value == unigram_kl([0, 2], [2, 0], 2)
    assert large[HUMAN].value == unigram_kl([0, 2], [2, 0], 1000)
    assert small[HUMAN].measure.unit == "nats (0.5 added to the counts of all tokens seen on either side)"
    assert large[HUMAN].measure.unit == "nats (0.5 added to the counts of all 1000 tokens of the tokenizer)"


def test_all_texts_and_all_references_together() -> None:
    split = [{"text": "a b", "references": ["a", "c"]}, {"text": "a", "references": [""]}]
    whole = [{"text": "a b a", "reference": "c a"}]
    assert values("unigram-kl", split) == values("unigram-kl", whole)
    assert measured("unigram-kl", split)[HUMAN].n == 3
    assert values("unigram-kl", split[::-1]) == pytest.approx(values("unigram-kl", split))


def test_against_a_text_as_a_whole(tmp_path: Path) -> None:
    """F2-Softmax, section 4.1.6: the test data, of which the references are a few stretches."""
    corpus = tmp_path / "test.txt"
    corpus.write_text("a a a\nb c\n")
    sample = {"text": "a b b", "reference": "b"}
    found = measured({"metric": "unigram-kl", "against": str(corpus)}, [sample, sample])
    assert found[HUMAN].value == pytest.approx(unigram_kl([3, 1, 1], [2, 4, 0], 3))
    assert found[GENERATED].value == pytest.approx(unigram_kl([2, 4, 0], [3, 1, 1], 3))
    assert values("unigram-kl", [sample, sample])[HUMAN] == pytest.approx(unigram_kl([0, 2], [2, 4], 2))
    assert found[HUMAN].measure.title == "KL(test || generated)"
    assert "the test data" in found[HUMAN].measure.meaning
    assert "all references" in measured("unigram-kl", [sample])[HUMAN].measure.meaning
    people = values({"metric": "unigram-kl", "against": str(corpus)}, [sample], human=True)
    assert people[HUMAN] == pytest.approx(unigram_kl([3, 1, 1], [0, 1, 0], 3))


def test_against_counts(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", np.array([0, 5, 0, 1]))
    sample = {"token_ids": [1, 2], "reference_token_ids": [[3]]}
    spec = {"metric": "unigram-kl", "against": str(tmp_path / "counts.npy")}
    found = values(spec, [sample], Vocabulary())
    assert found[HUMAN] == pytest.approx(unigram_kl([5, 0, 1], [1, 1, 0], 3))  # token 0 was never seen
    assert values(spec, [sample], Vocabulary(size=4))[HUMAN] == pytest.approx(unigram_kl([5, 0, 1], [1, 1, 0], 4))


def test_what_it_is_against_must_be_there(tmp_path: Path) -> None:
    for spec, message in (
        (
            "unigram-kl:test",
            "against: 'test' is possible only in a comparison, where a task has test data; give a text file",
        ),
        ({"metric": "unigram-kl", "against": str(tmp_path / "no.txt")}, "against: cannot count the tokens"),
        ({"metric": "unigram-kl", "against": str(tmp_path / "no.npz")}, "against: cannot read"),
        ("unigram-kl:people", "must be followed by references or test .'people' given"),
    ):
        with pytest.raises(ValueError, match=message):
            measured(spec, [])


def test_special_tokens_are_no_text() -> None:
    padded = {"token_ids": [1, 0, 0, 0], "reference_token_ids": [[0, 1]]}
    assert values("unigram-kl", [padded], Vocabulary(special=[0])) == {HUMAN: 0, GENERATED: 0}


def test_human_row_is_zero() -> None:
    samples = [{"text": "something else", "reference": text} for text in KOREAN]
    assert values("unigram-kl", samples, human=True) == {HUMAN: 0, GENERATED: 0}
    assert all(value > 0 for value in values("unigram-kl", samples).values())


def test_korean_halves_are_closer_than_strangers() -> None:
    reviews = korean_reviews(200)
    alike = values(
        "unigram-kl", [{"text": a, "reference": b} for a, b in zip(reviews[::2], reviews[1::2], strict=True)]
    )
    strange = values("unigram-kl", [{"text": "lorem ipsum", "reference": text} for text in reviews[1::2]])
    assert 0 < alike[HUMAN] < strange[HUMAN]


def test_errors() -> None:
    with pytest.raises(UndefinedError, match="no token in the texts"):
        measured("unigram-kl", [{"text": "", "reference": "a"}])
    with pytest.raises(UndefinedError, match="no token in the references"):
        measured("unigram-kl", [{"text": "a", "reference": ""}])
    with pytest.raises(MissingFieldError, match="line 1: no 'references'"):
        measured("unigram-kl", [{"text": "a"}])
    with pytest.raises(ValueError, match="1: token ids"):
        measured("unigram-kl", [{"token_ids": [9, 5], "reference_token_ids": [[1]]}], Vocabulary(size=9))
    for smoothing in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="smoothing"):
            measured({"metric": "unigram-kl", "smoothing": smoothing}, [])
    with pytest.raises(ValueError, match="a size of at least that length"):
        unigram_kl([1, 2], [1, 2], 1)
    with pytest.raises(ValueError, match="of the same length"):
        unigram_kl([1], [1, 2])
    with pytest.raises(ValueError, match="at least one token"):
        unigram_kl([], [])
