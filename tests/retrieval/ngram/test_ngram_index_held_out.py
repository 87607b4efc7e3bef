"""A text that is scored is not in the corpus: planted ones are found, others pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nextword.retrieval.ngram import expect_held_out
from tests.helpers.stored_texts import built

pytest.importorskip("pydivsufsort")

V = 500


def random_text(seed: int, size: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, V, size).tolist()


@pytest.mark.parametrize("size", [9, 32, 33, 64, 65, 400])
def test_a_planted_text_is_found(tmp_path: Path, size: int) -> None:
    planted = random_text(1, size)
    index = built(tmp_path / "memory", [random_text(2, 300), random_text(3, 10) + planted, random_text(4, 300)], V)
    match = r"asked: must not be in the n-gram index .*'document 1' from token 11 on\); take another text"
    with pytest.raises(ValueError, match=match):
        expect_held_out(index, "asked", np.array(planted))
    expect_held_out(index, "other", np.array(random_text(5, size)))


def test_a_text_most_of_which_is_stored_is_found(tmp_path: Path) -> None:
    planted = random_text(1, 400)
    index = built(tmp_path / "memory", [planted], V)
    with pytest.raises(ValueError, match="n-gram index"):
        expect_held_out(index, "asked", np.array(random_text(2, 96) + planted[96:]))
    expect_held_out(index, "quoted", np.array(random_text(2, 304) + planted[304:]))


def test_a_few_words_say_nothing(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [random_text(1, 100)], V)
    expect_held_out(index, "asked", np.array(random_text(1, 100)[:7]))
