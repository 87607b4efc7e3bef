from __future__ import annotations

import json
import logging
import random
import signal

import pytest
import torch
from safetensors.torch import save_file

from nextword.experiments.training.resume import last_complete_checkpoint
from tests.helpers import shared_trainings
from tests.helpers.ranks import ranks
from tests.helpers.shared_trainings import SAVED, STEPS


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


def trained(count, folder, texts=4 * STEPS, dropout=0.0, killed=None):
    """The first step that was made, and the losses of all; None where it was killed."""
    codes = ranks(count, shared_trainings.losses, str(folder), texts, dropout, killed)
    if killed is not None:
        assert codes[0] == -signal.SIGKILL
        return None
    assert codes == [0] * count
    return torch.load(folder / "losses.pt")


def test_shares_of_a_killed_training_go_on_to_the_same_losses_bit_for_bit(tmp_path):
    """FSDP2 on two processes, dropout, epochs that are no whole number of steps; killed after any step."""
    asked = {"texts": 13, "dropout": 0.1}
    _, expected = trained(2, tmp_path / "whole", **asked)
    step = random.randint(SAVED + 1, STEPS - 1)
    trained(2, tmp_path / "killed", **asked, killed=step)
    first, found = trained(2, tmp_path / "killed", **asked)
    assert first == (step - 1) // SAVED * SAVED + 1  # a step is told before its checkpoint is written
    assert found == expected, f"killed after step {step}"


@pytest.mark.parametrize(
    ("before", "after"),
    [(2, 1), pytest.param(2, 4, marks=pytest.mark.slow), pytest.param(4, 2, marks=pytest.mark.slow)],
)
def test_shares_are_gone_on_with_by_another_number_of_processes(before, after, tmp_path):
    """The order of the rows and the losses are those of a training that was not stopped."""
    trained(before, tmp_path / "killed", killed=SAVED + 1)
    first, found = trained(after, tmp_path / "killed")
    assert first == SAVED + 1
    _, expected = trained(2, tmp_path / "whole")
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)  # sums of float32 in another order
