from __future__ import annotations

import json
import logging

import pytest
import torch
from safetensors.torch import save_file

from nextword.training.resume import last_complete_checkpoint


def write_checkpoint(folder, step):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    save_file({"weight": torch.ones(1000)}, path / "model.safetensors")
    torch.save({"state": {}}, path / "optimizer.pt")
    torch.save({"last_epoch": 1}, path / "scheduler.pt")
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def test_the_newest_by_number_not_by_name(tmp_path):
    for step in (9, 10):
        write_checkpoint(tmp_path, step)
    assert last_complete_checkpoint(tmp_path).name == "checkpoint-10"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"])
@pytest.mark.parametrize("damage", [truncate, lambda path: path.unlink()], ids=["cut off", "missing"])
def test_a_half_written_checkpoint_is_passed_over_with_a_warning(tmp_path, caplog, name, damage):
    write_checkpoint(tmp_path, 5)
    damage(write_checkpoint(tmp_path, 10) / name)
    with caplog.at_level(logging.WARNING):
        assert last_complete_checkpoint(tmp_path).name == "checkpoint-5"
    assert "checkpoint-10 is incomplete" in caplog.text


def test_a_missing_shard_counts(tmp_path):
    path = write_checkpoint(tmp_path, 5)
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert last_complete_checkpoint(tmp_path) is None


def test_nothing_there(tmp_path):
    assert last_complete_checkpoint(tmp_path) is None
