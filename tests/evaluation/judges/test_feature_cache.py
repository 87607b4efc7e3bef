"""Features are computed once, survive a killed run, and are never taken from a broken file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nextword.cli import app
from nextword.evaluation import evaluate
from nextword.evaluation.judges.feature_cache import FeatureCache, key_of
from nextword.results.records import DiskFullError
from tests.helpers.full_disk import largest_file

SETTINGS = {"model": "m1", "max_length": 8}


class Counted:
    """A model of features: length and first letter; counts what it is asked."""

    def __init__(self, texts: list[str], batch: int = 2, dies_after: int | None = None) -> None:
        self.texts, self.batch, self.dies_after = texts, batch, dies_after
        self.asked: list[str] = []

    def __call__(self, places: list[int]) -> Iterator[tuple[list[int], np.ndarray]]:
        for number, start in enumerate(range(0, len(places), self.batch)):
            if number == self.dies_after:
                raise KeyboardInterrupt
            some = places[start : start + self.batch][::-1]  # any order will do
            self.asked += [self.texts[place] for place in some]
            yield some, np.array([[len(self.texts[place]), ord(self.texts[place][0])] for place in some])


def rows(folder: Path | None, model: Counted, settings: dict[str, object] = SETTINGS) -> np.ndarray:
    return FeatureCache(folder, "test", settings).rows([key_of(text) for text in model.texts], model)


def expected(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), float(ord(text[0]))] for text in texts]


TEXTS = ["one", "three", "정말", "four", "one", "fourteen"]


@pytest.mark.parametrize("with_folder", [False, True])
def test_rows_are_in_the_order_of_the_keys_and_equal_texts_are_read_once(tmp_path: Path, with_folder: bool) -> None:
    model = Counted(TEXTS)
    found = rows(tmp_path if with_folder else None, model)
    assert found.dtype == np.float32
    assert found.tolist() == expected(TEXTS)
    assert sorted(model.asked) == sorted(set(TEXTS))


def test_second_run_reads_nothing_and_gives_the_same_bits(tmp_path: Path) -> None:
    first = rows(tmp_path, Counted(TEXTS))
    model = Counted(TEXTS)
    again = rows(tmp_path, model)
    assert model.asked == []
    assert again.tobytes() == first.tobytes()


def test_only_new_texts_are_read(tmp_path: Path) -> None:
    rows(tmp_path, Counted(TEXTS))
    model = Counted(["new", *TEXTS, "newer"])
    assert rows(tmp_path, model).tolist() == expected(model.texts)
    assert sorted(model.asked) == ["new", "newer"]


def test_other_settings_have_other_features(tmp_path: Path) -> None:
    rows(tmp_path, Counted(TEXTS))
    model = Counted(TEXTS)
    rows(tmp_path, model, {**SETTINGS, "model": "m2"})
    assert len(model.asked) == len(set(TEXTS))
    assert len(list(tmp_path.iterdir())) == 2


def test_killed_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{number} text" for number in range(10)]
    with pytest.raises(KeyboardInterrupt):
        rows(tmp_path, Counted(texts, dies_after=3))
    model = Counted(texts)
    assert rows(tmp_path, model).tolist() == expected(texts)
    assert sorted(model.asked) == texts[6:]


def test_run_killed_without_warning_keeps_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after kill -9: nothing after the last regular save reaches the disk."""
    monkeypatch.setattr("nextword.evaluation.judges.feature_cache.SAVE_EVERY", 2)
    texts = [f"{number} text" for number in range(10)]
    saved = FeatureCache._save

    def save(self: FeatureCache, keys: list[str], found: dict[str, np.ndarray]) -> None:
        if len(keys) == 4:
            saved(self, keys, found)

    monkeypatch.setattr(FeatureCache, "_save", save)
    with pytest.raises(KeyboardInterrupt):
        rows(tmp_path, Counted(texts, dies_after=3))
    monkeypatch.setattr(FeatureCache, "_save", saved)
    model = Counted(texts)
    assert rows(tmp_path, model).tolist() == expected(texts)
    assert sorted(model.asked) == texts[4:]


@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "text", "shape", "nan"])
def test_broken_file_is_set_aside_and_computed_again(tmp_path: Path, harm: str) -> None:
    rows(tmp_path, Counted(TEXTS))
    (path,) = tmp_path.rglob("*.npz")
    data = bytearray(path.read_bytes())
    middle = data.find(np.float32(8.0).tobytes())
    damaged = {
        "cut": bytes(data[: len(data) // 2]),
        "flip": bytes(data[: middle + 2] + bytes([data[middle + 2] ^ 4]) + data[middle + 3 :]),
        "empty": b"",
        "text": b"no archive",
    }
    if harm in damaged:
        path.write_bytes(damaged[harm])
    else:
        keys = np.load(path)["keys"]
        values = np.zeros((len(keys) - 1, 2), np.float32) if harm == "shape" else np.full((len(keys), 2), np.nan)
        np.savez(path, keys=keys, rows=values.astype(np.float32))
    model = Counted(TEXTS)
    with pytest.warns(UserWarning, match="broken, so its features are computed again"):
        assert rows(tmp_path, model).tolist() == expected(TEXTS)
    assert len(model.asked) == len(set(TEXTS))
    again = Counted(TEXTS)
    assert rows(tmp_path, again).tolist() == expected(TEXTS)  # no warning any more
    assert again.asked == []


def test_half_written_file_is_no_file(tmp_path: Path) -> None:
    rows(tmp_path, Counted(TEXTS))
    (path,) = tmp_path.rglob("*.npz")
    path.with_name(".0123.tmp").write_bytes(path.read_bytes()[:100])
    model = Counted(TEXTS)
    rows(tmp_path, model)
    assert model.asked == []


def test_features_that_are_no_numbers_are_refused_and_not_kept(tmp_path: Path) -> None:
    def broken(places: list[int]) -> Iterator[tuple[list[int], np.ndarray]]:
        yield [0], np.array([[1.0, 2.0]])
        yield [1, 2], np.array([[3.0, 4.0], [np.nan, 1.0]])

    keys = [key_of(text) for text in ("a", "b", "c")]
    cache = FeatureCache(tmp_path, "test", SETTINGS)
    with pytest.raises(ValueError, match=r"test:.*infinity for 1 of 2 texts"):
        cache.rows(keys, broken)
    (path,) = tmp_path.rglob("*.npz")
    assert len(np.load(path)["keys"]) == 1


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="features=FOLDER"):
        rows(tmp_path / "file", Counted(TEXTS))


def test_nothing_to_read() -> None:
    assert rows(None, Counted([])).shape == (0, 0)


def test_progress_counts_what_is_computed() -> None:
    told: list[tuple[str, int, int]] = []
    cache = FeatureCache(None, "test", SETTINGS, lambda *state: told.append(state))
    cache.rows([key_of(text) for text in TEXTS], Counted(TEXTS))
    assert told == [("test", 2, 5), ("test", 4, 5), ("test", 5, 5)]


def test_keys_tell_parts_apart() -> None:
    keys = [("ab",), ("a", "b"), ("b", "a"), ("", "ab"), ("ab", ""), ("정말",), ("\ud800",)]
    assert len({key_of(*parts) for parts in keys}) == len(keys)


@pytest.mark.slow
def test_features_lie_beside_the_samples_or_where_they_are_asked_for(tmp_path: Path, bert_folder: str) -> None:
    samples = tmp_path / "samples" / "mine.jsonl"
    samples.parent.mkdir()
    lines = [json.dumps({"prompt": text, "text": text[::-1]}) + "\n" for text in TEXTS]
    samples.write_text("".join(lines), encoding="utf-8")
    asked = {"systems": {"mine": [str(samples)]}, "metrics": [{"metric": "coherence", "encoder": bert_folder}]}
    elsewhere = evaluate({**asked, "features": tmp_path / "kept"})
    assert [path.name for path in samples.parent.iterdir()] == ["mine.jsonl"]
    assert list((tmp_path / "kept").rglob("*.npz"))
    beside = evaluate(asked)
    assert list((samples.parent / "mine.jsonl.features").rglob("*.npz"))
    assert beside.systems[0].values == elsewhere.systems[0].values
    words = ["evaluate", str(samples), "--metrics", "coherence", "--set", f"coherence.encoder={bert_folder}"]
    done = CliRunner().invoke(app, [*words, "--features", str(tmp_path / "third"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert list((tmp_path / "third").rglob("*.npz"))


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError, match=r"\.npz cannot"), largest_file(500):
        rows(tmp_path, Counted([str(number) for number in range(100)]))
    assert not list(tmp_path.rglob("*.tmp"))
