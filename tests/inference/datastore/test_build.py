"""Datastores: what is in them, what they refuse, and that a build goes on where it was killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.inference.datastore import build_datastore
from nextword.inference.scoring.opened_model import open_model
from nextword.retrieval import StoredKeys
from nextword.runtime.files import DiskFullError
from tests.helpers.full_disk import make_larger, room_for, small_disk
from tests.helpers.small_datastores import DOCUMENTS, EMPTY, SETTINGS, saved_model, small_store, texts, written
from tests.helpers.word_models import word_tokenizer


@torch.no_grad()
def test_keys_tokens_and_places_are_those_of_the_texts(tmp_path: Path) -> None:
    """Computed again, window by window, with the backbone alone."""
    folder, store = small_store(tmp_path)
    keys, backbone = StoredKeys(store), open_model(folder).model.backbone
    number = 0
    for document, text in enumerate(texts()):
        ids = [keys.start, *word_tokenizer()(text, add_special_tokens=False)["input_ids"]]
        for place in range(len(ids) - 1):
            window = max(0, min(place // 16 * 16, place)) if len(ids) - 1 > 16 else 0
            last = len(ids) - 1 - 16
            begin = last if window > last > 0 else window  # the last window is whole and reaches back
            state = backbone.transformer(torch.tensor([ids[begin : place + 1]])).last_hidden_state[0, -1]
            at = np.array([number])
            assert keys.positions_at(at).tolist() == [[document, place]]
            assert keys.tokens_at(at)[0] == ids[place + 1]
            np.testing.assert_allclose(keys.keys_at(at)[0], state, rtol=2e-3, atol=2e-3)
            number += 1
    assert number == len(keys)
    manifest = keys.manifest
    assert (manifest.documents, manifest.empty_documents) == (DOCUMENTS, 1)
    assert len(manifest.shards) > 2
    last_text = word_tokenizer()(texts()[-1])["input_ids"]
    assert keys.stretch(DOCUMENTS - 1, 5, 10) == (last_text[5:11], 5)
    assert keys.stretch(DOCUMENTS - 1, -3, 1000) == (last_text, 0)
    assert keys.stretch(EMPTY, -1, 1) == ([], 0)


def test_int8_keys_are_near(tmp_path: Path) -> None:
    _, store = small_store(tmp_path, replace(SETTINGS, precision="int8"))
    _, exact = small_store(tmp_path / "exact")
    numbers = np.arange(len(StoredKeys(store)))
    rough, fine = (StoredKeys(folder).keys_at(numbers) for folder in (store, exact))
    assert np.abs(rough - fine).max() < np.abs(fine).max() / 100
    assert not np.array_equal(rough, fine)


def files(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.iterdir()) if path.suffix in (".npy", ".json")}


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "afterwards"), [pytest.param(None, 2, marks=pytest.mark.slow), (2, None)])
def test_a_build_on_from_a_kill_makes_the_same_files(
    tmp_path: Path, processes: int | None, afterwards: int | None
) -> None:
    """Killed in the middle, alone or while others work for it: the shards that are there stay as they are."""
    folder, store = small_store(tmp_path)
    whole, again = files(store), tmp_path / "again"
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal\n"
        "from nextword.inference.datastore import build_datastore, BuildSettings\n"
        f"settings = BuildSettings(window=16, shard_keys=50, batch_size=3, processes={processes})\n"
        "def die(keys):\n    if keys > 100: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        f"    build_datastore({str(folder)!r}, {str(tmp_path / 'data.jsonl')!r}, {str(again)!r}, settings, die)\n"
    )
    killed = subprocess.run([sys.executable, str(script)], capture_output=True, check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(ValueError, match=r"finished\); run"):
        StoredKeys(again)
    first = again / "shard-00000.keys.npy"
    before = first.stat().st_mtime_ns
    build_datastore(folder, tmp_path / "data.jsonl", again, replace(SETTINGS, processes=afterwards))
    assert files(again) == whole
    assert first.stat().st_mtime_ns == before


def test_another_store_in_the_folder_is_refused(tmp_path: Path) -> None:
    folder, store = small_store(tmp_path)
    other = saved_model(tmp_path / "other", seed=1)
    whole = files(store)
    with pytest.raises(ValueError, match=r"\(model_fingerprint"):
        build_datastore(other, tmp_path / "data.jsonl", store, SETTINGS)
    more = written(tmp_path / "more.jsonl", ["the king"])
    with pytest.raises(ValueError, match="belongs to another"):
        build_datastore(folder, more, store, SETTINGS)
    with pytest.raises(ValueError, match=r"\(precision"):
        build_datastore(folder, tmp_path / "data.jsonl", store, replace(SETTINGS, precision="int8"))
    assert files(store) == whole


def test_nothing_to_store_is_refused(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "model")
    with pytest.raises(ValueError, match=r"data:.*\('empty.jsonl'"):
        build_datastore(folder, written(tmp_path / "empty.jsonl", ["", ""]), tmp_path / "store", SETTINGS)


def expect_a_build_that_goes_on(tmp_path: Path, store: Path, full: contextlib.AbstractContextManager[None]) -> None:
    """A build that finds the disk full keeps its finished shards as they are, and ends with the files of one that did
    not."""
    folder, data = saved_model(tmp_path / "model"), written(tmp_path / "data.jsonl", texts())
    build_datastore(folder, data, tmp_path / "whole", SETTINGS)
    with full, pytest.raises(DiskFullError, match="finished is kept"):
        build_datastore(folder, data, store, SETTINGS)
    done = sorted(path.name for path in store.glob("shard-*.json"))
    assert 0 < len(done) < len(StoredKeys(tmp_path / "whole").shards)
    kept = {name: (content, (store / name).stat().st_mtime_ns) for name, content in files(store).items()}
    assert not list(store.glob(".*.tmp")), "nothing half written is left"
    with pytest.raises(ValueError, match="was begun and not finished"):
        StoredKeys(store)
    if os.path.ismount(store.parent):
        make_larger(store.parent, 1 << 20)
    build_datastore(folder, data, store, SETTINGS)
    assert files(store) == files(tmp_path / "whole")
    of_shards = {name for name in kept if name.split(".")[0] + ".json" in done}
    assert len(of_shards) == 4 * len(done)
    for name in of_shards:
        assert ((store / name).read_bytes(), (store / name).stat().st_mtime_ns) == kept[name]


@pytest.mark.few(1)
@pytest.mark.parametrize("written_before", [6, 7, 8, 9])
def test_a_full_disk_keeps_finished_shards(tmp_path: Path, written_before: int) -> None:
    """Wherever in a shard of four files it is noticed; the first file says what is built."""
    expect_a_build_that_goes_on(tmp_path, tmp_path / "store", room_for(written_before))


def test_a_real_full_disk_keeps_finished_shards(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 12 * 4096) as disk:
        expect_a_build_that_goes_on(tmp_path, disk / "store", contextlib.nullcontext())


@pytest.mark.parametrize("part", ["keys", "tokens", "places"])
def test_a_truncated_shard_is_refused_and_made_again(tmp_path: Path, part: str) -> None:
    folder, store = small_store(tmp_path)
    whole, damaged = files(store), store / f"shard-00001.{part}.npy"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    with pytest.raises(
        ValueError, match=rf"shard-00001\.{part}\.npy' is cut off or damaged\); delete shard-00001.json"
    ):
        StoredKeys(store)
    (store / "shard-00001.json").unlink()
    (store / "store.json").unlink()
    build_datastore(folder, tmp_path / "data.jsonl", store, SETTINGS)
    assert files(store) == whole


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    from tests.helpers.opened_models import encoder_decoder

    with pytest.raises(ValueError, match="model: must be decoder-only"):
        build_datastore(encoder_decoder("t5"), written(tmp_path / "a.jsonl", ["the king"]), tmp_path / "store")


def test_the_manifest_says_where_it_is_from(tmp_path: Path) -> None:
    folder, store = small_store(tmp_path)
    said = json.loads((store / "store.json").read_text())
    assert said["nextword"] == nw.__version__
    assert said["origin"]["model"] == folder.name
    assert "data.jsonl" in said["origin"]["data"]


def test_progress_counts_keys_within_a_shard_and_after_it(tmp_path: Path) -> None:
    folder, store = small_store(tmp_path)
    told: list[int] = []
    build_datastore(folder, tmp_path / "data.jsonl", tmp_path / "told", SETTINGS, told.append)
    ends = list(itertools.accumulate(StoredKeys(store).manifest.shards))
    assert told == sorted(told)
    assert set(ends) < set(told)
    assert told[-1] == ends[-1]
