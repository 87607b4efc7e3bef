"""Objectives with a state under transformers.Trainer: accumulation, resuming, saving and loading."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import nextword as nw
from tests.helpers.trainer_runs import LENGTH, V, causal, collate, losses, rows, seq2seq, trainer

SEQ = {"rate": 1.0, "prefix": 4, "continuation": 6, "n": 2}


@pytest.mark.slow
@pytest.mark.parametrize("head", ["softmax", "mos:2", "cache"])
@pytest.mark.parametrize("objective", ["unlikelihood", {"objective": "mle", "seq": SEQ}], ids=["tokens", "sequences"])
def test_loss_does_not_depend_on_how_a_batch_is_cut(objective: object, head: str, tmp_path: Path) -> None:
    seen = []
    for size, steps in ((8, 1), (2, 4)):
        model = causal(head, objective)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0  # dropout draws differ between the two cuts
        run = trainer(model, tmp_path / str(size), per_device_train_batch_size=size, gradient_accumulation_steps=steps)
        if objective != "unlikelihood":  # a mean over continuations weighs by targets: equal ones make the cuts equal
            run.train_dataset = run.train_dataset.map(lambda row: {"labels": row["input_ids"]})
        run.train()
        seen.append(losses(run))
    assert seen[0][0] > 0
    torch.testing.assert_close(torch.tensor(seen[0]), torch.tensor(seen[1]), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["face:opr", "face:gpo,cp", "unlikelihood+seq:0.3,4x6", "face:gpr+seq:0.3,4x6"])
def test_resumed_training_is_bit_for_bit_the_uninterrupted_one(objective: str, tmp_path: Path) -> None:
    whole = causal("softmax", objective)
    trainer(whole, tmp_path / "whole", save_strategy="steps", save_steps=2).train()
    shutil.rmtree(tmp_path / "whole" / "checkpoint-4")
    resumed = causal("softmax", objective)
    run = trainer(resumed, tmp_path / "whole", save_strategy="steps", save_steps=2)
    run.train(resume_from_checkpoint=True)
    assert run.state.global_step == 4
    assert whole.objective.state_dict()
    theirs, ours = whole.state_dict(), resumed.state_dict()
    assert theirs.keys() == ours.keys()
    for name, value in theirs.items():
        assert torch.equal(value, ours[name]), name


def trained(objective: str):
    model = causal("cache", objective).train()
    for _ in range(8):
        model(**collate(list(rows(4))))
    return model


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_is_saved_and_loaded(dtype: torch.dtype, tmp_path: Path) -> None:
    model = trained("face:gpr+seq:0.5,4x6")
    state = model.objective.state_dict()
    assert state["counts"].sum() > 0
    assert state["sequence.step"] == 8
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path, dtype=dtype).objective
    assert not loaded.training
    assert loaded.config == model.objective.config
    for name, value in loaded.state_dict().items():
        assert value.dtype == torch.int64
        assert torch.equal(value, state[name]), name


@pytest.mark.slow
def test_another_objective_starts_with_nothing(tmp_path: Path) -> None:
    model = trained("face:gpr+seq:0.5,4x6")
    model.save_pretrained(tmp_path / "face")
    causal("cache").save_pretrained(tmp_path / "mle")
    again = nw.load(tmp_path / "face", objective="face:opr")
    assert not again.objective.counts.any()
    assert not nw.load(tmp_path / "face", objective="mle").objective.state_dict()
    assert not nw.load(tmp_path / "face", head="softmax", objective="mle").objective.state_dict()
    later = nw.load(tmp_path / "mle", objective="face:gpr").train()
    assert not later.objective.counts.any()
    later(**collate(list(rows(4))))
    assert later.objective.counts.any()
    model.set_objective("unlikelihood")
    assert not model.objective.state_dict()
    assert model.objective.training


def test_a_checkpoint_without_the_state_starts_with_nothing(tmp_path: Path) -> None:
    """The weights of one objective under the name of another, as where a run is continued by hand."""
    source = causal("softmax")
    source.save_pretrained(tmp_path)
    source.config.objective = nw.objectives.parse_objective("face:opr+seq:0.5,4x6").model_dump()
    source.config.save_pretrained(tmp_path)
    state = nw.load(tmp_path).objective.state_dict()
    assert set(state) == {"counts", "sequence.step"}
    assert not any(value.any() for value in state.values())


def test_counts_follow_a_resized_vocabulary(tmp_path: Path) -> None:
    model = trained("face:gpr")
    before = model.objective.counts.tolist()
    model.resize_token_embeddings(V + 5)
    assert model.objective.counts.tolist() == [*before, 0, 0, 0, 0, 0]
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path).train()
    assert loaded.objective.counts.tolist() == [*before, 0, 0, 0, 0, 0]
    loaded(**collate(list(rows(4))))


def test_face_counts_the_targets_of_unpadded_places_only() -> None:
    model = causal("softmax", "face:gpr").train()
    given = collate(list(rows(4)))
    given["labels"] = given["input_ids"].clone()
    mask = torch.ones(4, LENGTH, dtype=torch.long)
    mask[1, :5] = 0
    model(**given, attention_mask=mask)
    expected = torch.zeros(V, dtype=torch.long)
    for row in range(4):
        first = 6 if row == 1 else 1  # what stands first in a text has nothing that predicts it
        for place in range(first, LENGTH):
            expected[given["labels"][row, place]] += 1
    assert model.objective.counts.tolist() == expected.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["face:opr", "unlikelihood", "mle+seq:0.5,4x6"])
def test_encoder_decoder_trains(objective: str, tmp_path: Path) -> None:
    run = trainer(seq2seq("cache", objective), tmp_path, max_steps=6)
    run.train()
    assert all(torch.tensor(loss).isfinite() for loss in losses(run))
    assert run.evaluate()["eval_loss"] > 0
