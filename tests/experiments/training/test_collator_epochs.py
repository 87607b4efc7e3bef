"""Data that shows other rows in each epoch: a resumed training must see those of the uninterrupted one."""

from __future__ import annotations

import pytest
import torch

from nextword.experiments.training.collator import FixedDataset
from nextword.experiments.training.one_training import fit
from tests.helpers.tiny_trainings import VOCABULARY, settings, tiny_gpt2

ROWS = 10  # three batches of 4 an epoch: steps 4 and 5 lie in the middle of the second


class Changing:
    """Rows whose first token tells the epoch; notes what was read, in worker processes too."""

    column_names = ("input_ids", "labels")

    def __init__(self, log):
        self.log, self.epoch = log, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return ROWS

    def __getitem__(self, place):
        with self.log.open("a") as file:
            file.write(f"{self.epoch} {place}\n")
        generator = torch.Generator().manual_seed(100 * self.epoch + place)
        ids = torch.randint(5, VOCABULARY, (6,), generator=generator).tolist()
        return {"input_ids": [1 + self.epoch, *ids], "labels": [1 + self.epoch, *ids]}


def trained(folder, log, killed_after=None, **changes):
    model, steps = tiny_gpt2(), []

    def progress(fraction):
        steps.append(fraction)
        if len(steps) == killed_after:
            raise KeyboardInterrupt

    asked = settings(**{"steps": 8, "save_every": 1, **changes})
    fit(model, Changing(log), asked, seed=1, folder=folder, validation=Changing(log), progress=progress)
    return model


def read(log):
    return [tuple(map(int, line.split())) for line in log.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "killed_after"), [(0, 2), (0, 4), (0, 5), (0, 7), (1, 5)])
def test_a_resumed_training_reads_the_rows_of_the_uninterrupted_one(tmp_path, workers, killed_after):
    whole = trained(tmp_path / "whole", tmp_path / "all.txt", dataloader_workers=workers)
    seen = read(tmp_path / "all.txt")
    assert [epoch for epoch, _ in seen[: 2 * ROWS]] == [0] * ROWS + [1] * ROWS
    assert {epoch for epoch, _ in seen[2 * ROWS :]} == {2}
    for epoch in (0, 1):
        assert sorted(place for at, place in seen if at == epoch) == list(range(ROWS))

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", tmp_path / "before.txt", killed_after, dataloader_workers=workers)
    resumed = trained(tmp_path / "cut", tmp_path / "after.txt", dataloader_workers=workers)
    done = (killed_after - 1) // 3 * ROWS + (killed_after - 1) % 3 * 4  # a step is saved after the progress is told
    assert read(tmp_path / "after.txt") == seen[done:]
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


@pytest.mark.slow
def test_epochs_are_told_with_gradient_accumulation_too(tmp_path):
    changes = {"gradient_accumulation_steps": 2, "batch_size": 2, "steps": 7}  # of three an epoch, the last one shorter
    whole = trained(tmp_path / "whole", tmp_path / "all.txt", **changes)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", tmp_path / "before.txt", 5, **changes)
    resumed = trained(tmp_path / "cut", tmp_path / "after.txt", **changes)
    seen = read(tmp_path / "all.txt")
    assert read(tmp_path / "after.txt") == seen[ROWS + 4 :]
    assert {epoch for epoch, _ in seen} == {0, 1, 2}
    assert all(torch.equal(resumed.state_dict()[name], value) for name, value in whole.state_dict().items())


def test_validation_data_stays_as_it_is(tmp_path):
    class Refusing(Changing):
        def set_epoch(self, epoch):
            raise AssertionError("accelerate tells how often it was read")

    validation = Refusing(tmp_path / "validation.txt")
    asked = settings(steps=6, evaluate_every=2)
    fit(tiny_gpt2(), Changing(tmp_path / "x"), asked, seed=1, folder=tmp_path / "out", validation=validation)
    assert read(tmp_path / "validation.txt") == 3 * [(0, place) for place in range(ROWS)]
    assert not hasattr(FixedDataset(validation), "set_epoch")
