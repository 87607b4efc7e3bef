from __future__ import annotations

import pytest
from datasets import Dataset
from transformers import GPT2Config

import nextword as nw
from nextword.experiments.comparison.method import Method
from nextword.experiments.reproduction.planning.experiment_work import ModelSize, RowLength, method_size
from nextword.experiments.reproduction.planning.training_time import existing_folder, models_on_disk, training_memory
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.settings import TrainingSettings

SMALL = ModelSize(10, 10, 10)
CONFIG = GPT2Config(vocab_size=2000, n_positions=128, n_embd=64, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)


@pytest.mark.slow
def test_the_estimate_is_near_what_a_training_measures(tmp_path):
    from transformers import GPT2LMHeadModel

    settings, length = TrainingSettings(steps=3, batch_size=8, save_every=None), 128
    rows = [[1 + (row + place) % 1999 for place in range(length)] for row in range(32)]
    model = nw.attach(GPT2LMHeadModel(CONFIG), "softmax").train()
    data = Dataset.from_dict({"input_ids": rows, "labels": rows})
    measured = fit(model, data, settings, seed=0, folder=tmp_path).cost.peak_memory_mib
    size = method_size(Method(head="softmax"), CONFIG, [settings])
    planned = training_memory(size, CONFIG, settings, RowLength(length, "exactly")) / 2**20
    assert measured / 2 < planned < 2 * measured


def test_half_precision_and_checkpointing_take_less():
    plain, half, held, kept = (
        training_memory(SMALL, CONFIG, TrainingSettings(steps=1, **more), RowLength(128, "exactly"))
        for more in ({}, {"bf16": True}, {"weights": "bfloat16"}, {"activation_checkpointing": True})
    )
    assert held < half < plain
    assert kept < plain


def test_disk_is_start_models_and_two_checkpoints():
    models = [SMALL] * 3
    assert models_on_disk(models, SMALL, keep=True) == 40 + 3 * 40 + 2 * 120
    assert models_on_disk(models, SMALL, keep=False) == 40 + 2 * 40 + 2 * 120


def test_the_nearest_folder_that_exists(tmp_path):
    assert existing_folder(tmp_path / "a" / "b") == tmp_path
