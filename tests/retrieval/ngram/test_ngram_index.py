"""The index against counting by scanning: matches, counts, next tokens, places; and folders that cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nextword.retrieval.ngram import NgramIndex, find_levels, levels
from nextword.retrieval.ngram.levels import ranks_of
from nextword.retrieval.ngram.manifest import MANIFEST, NAMES, ORDER, STARTS, STREAM
from nextword.retrieval.ngram.ngram_index import LastTokens
from tests.helpers.stored_texts import EVIDENCE, LIMIT, built, followed, random_documents, scanned_levels

pytest.importorskip("pydivsufsort")


@pytest.mark.parametrize("vocab_size", [3, 250, 256, 65_535, 65_536, 200_000])
@pytest.mark.parametrize("seed", [0, 1])
def test_levels_are_those_found_by_scanning(tmp_path: Path, seed: int, vocab_size: int) -> None:
    documents = random_documents(seed, vocab_size)
    index = built(tmp_path / "memory", documents, vocab_size)
    stored = [ids for ids in documents if ids]
    random = np.random.default_rng(seed + 10)
    text = np.concatenate([random.integers(0, min(vocab_size, 4), 30), stored[0], [vocab_size - 1] * 12, stored[-1]])
    text = np.minimum(text, vocab_size - 1)
    found = find_levels(index, LastTokens.of_text(text), EVIDENCE, LIMIT)
    for place in range(len(text)):
        context = text[: place + 1].tolist()
        longest = next((size for size in range(len(context), 0, -1) if followed(stored, context[-size:])), 0)
        assert found.length[place] == longest
        for level, expected in enumerate(scanned_levels(stored, context, EVIDENCE, LIMIT)):
            ranks = np.arange(found.low[place, level], found.high[place, level])
            numbers, offsets = index.next_offsets(ranks)
            tokens = index.next_tokens(ranks)
            assert sorted(zip(numbers.tolist(), offsets.tolist(), tokens.tolist(), strict=True)) == sorted(expected)
            size = found.level_length[place, level]
            assert followed(stored, context[-size:] if size else [-1]) == expected
        low, high = found.widest()
        assert high[place] - low[place] == found.counts[place].max()


@pytest.mark.parametrize("at_once", [1, 5, 1 << 21])
def test_probabilities_are_shares_of_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(levels, "_AT_ONCE", at_once)
    documents = [[5, 6, 7], [5, 6, 7], [5, 6, 8], [1, 6, 9]]
    index = built(tmp_path / "memory", documents, 10)
    contexts = LastTokens.of_text(np.array([5, 6]))
    found = find_levels(index, contexts, (1, 4), 10)
    assert found.length.tolist() == [1, 2]
    assert found.counts.tolist() == [[3, 0], [3, 4]]
    assert found.level_length.tolist() == [[1, 0], [2, 1]]
    assert found.probabilities(index, np.array([6, 7])).tolist() == [[1, 0], [2 / 3, 2 / 4]]
    assert found.probabilities(index, np.array([0, 9])).tolist() == [[0, 0], [0, 1 / 4]]


def test_a_match_does_not_cross_a_document_end(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [[1, 2], [3, 4]], 5)
    found = find_levels(index, LastTokens.of_text(np.array([1, 2, 3])), (1,), 10)
    assert found.length.tolist() == [1, 0, 1]  # nothing comes after 2, and 3 follows no 2
    places = index.next_positions(np.arange(found.low[2, 0], found.high[2, 0]))
    assert [(place.document, place.offset) for place in places] == [("document 1", 1)]


def test_unknown_tokens_and_padding_end_a_match(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [[1, 2, 3, 4]], 5)
    ids = np.array([[1, 2, 3], [1, -1, 3], [1, 2, 3], [0, 0, 3]])
    valid = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1], [0, 0, 0]], dtype=bool)
    contexts = LastTokens(ids, valid, np.arange(4), np.full(4, 2))
    assert find_levels(index, contexts, (1,), 10).length.tolist() == [3, 1, 1, 0]


def test_what_a_model_does_not_see_is_not_looked_up(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [[1, 2, 3, 4, 0]], 5)
    places, first = np.array([3, 3, 3, 2]), np.array([0, 2, 3, 1])
    contexts = LastTokens.of_text(np.array([1, 2, 3, 4]), places, first)
    assert find_levels(index, contexts, (1,), 10).length.tolist() == [4, 2, 1, 2]


def test_a_match_longer_than_what_is_compared_at_first(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    document = random.integers(0, 50, 700).tolist()
    index = built(tmp_path / "memory", [document, [*document[100:500], 49], [3, 4]], 50)
    found = find_levels(index, LastTokens.of_text(np.array(document[50:600])), (1,), 10)
    assert found.length.tolist() == list(range(1, 551))
    ambiguous = np.flatnonzero(found.counts[:, 0] == 2)
    assert len(ambiguous) == 0 or ambiguous.max() < 60 + 400  # beyond a few tokens one place alone is the longest


def test_tokens_around_a_place(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [[1, 2, 3], [4, 5, 6, 7]], 8)
    assert index.tokens_of(1, 1, 3).tolist() == [5, 6]
    assert index.tokens_of(0, -5, 99).tolist() == [1, 2, 3]
    assert index.tokens_of(1, 2, 99).tolist() == [6, 7]
    assert index.tokens_of(1, 9, 12).tolist() == []


def test_ranks_of_nothing() -> None:
    row, rank = ranks_of(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64))
    assert len(row) == len(rank) == 0


def test_a_build_that_fails_leaves_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1: must have tokens from 0.*\(5 given"):
        built(tmp_path / "memory", [[1, 2], [3, 5]], 5)
    with pytest.raises(ValueError, match="n-gram index"):
        NgramIndex(tmp_path / "memory")
    assert len(built(tmp_path / "memory", [[1, 2], [3, 4]], 5)) == 2


@pytest.mark.parametrize("documents", [[], [[]], [[1], [2]]])
def test_a_corpus_in_which_nothing_follows_is_refused(tmp_path: Path, documents: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"data:.*document of two"):
        built(tmp_path / "memory", documents, 5)


def test_the_same_corpus_is_kept_and_another_refused(tmp_path: Path) -> None:
    built(tmp_path / "memory", [[1, 2]], 5)
    before = (tmp_path / "memory" / ORDER).stat().st_mtime_ns
    built(tmp_path / "memory", [[1, 2]], 5)
    assert (tmp_path / "memory" / ORDER).stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"\(vocab_size"):
        built(tmp_path / "memory", [[1, 2]], 6)


@pytest.mark.parametrize("name", [STREAM, ORDER, STARTS])
@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    built(tmp_path / "memory", [[1, 2, 3], [4, 5]], 8)
    path = tmp_path / "memory" / name
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        np.save(path, np.zeros(99, dtype=np.uint16))
    with pytest.raises(ValueError, match=rf"{name}: must .*; build the index again"):
        NgramIndex(tmp_path / "memory")


def test_damaged_names_and_newer_formats_are_named(tmp_path: Path) -> None:
    index = built(tmp_path / "memory", [[1, 2, 3]], 8)
    (tmp_path / "memory" / NAMES).write_text("[")
    with pytest.raises(ValueError, match=rf"{NAMES}: must be whole"):
        index.next_positions(np.array([0]))
    manifest = tmp_path / "memory" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match=r"format:.*\(2 given"):
        NgramIndex(tmp_path / "memory")
