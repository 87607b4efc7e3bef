"""transformers.Trainer, unchanged: accumulation, evaluation, resuming."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

import nextword as nw

V, LENGTH = 40, 12


def causal(head: str, objective: str = "mle"):
    torch.manual_seed(0)
    gpt2 = GPT2Config(vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0)
    return nw.attach(GPT2LMHeadModel(gpt2), head, objective)


def seq2seq(head: str, objective: str = "mle"):
    torch.manual_seed(0)
    t5 = T5Config(
        vocab_size=V, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0, dropout_rate=0.0
    )
    return nw.attach(T5ForConditionalGeneration(t5), head, objective)


def rows(count: int = 16) -> Dataset:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, V, (count, LENGTH), generator=generator)
    labels = ids.clone()
    for row in range(count):
        labels[row, : row % 7] = -100  # so that micro-batches have different numbers of targets
    return Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})


def collate(examples: list[dict]) -> dict:
    return {key: torch.tensor([example[key] for example in examples]) for key in ("input_ids", "labels")}


def trainer(model, folder: Path, **settings) -> Trainer:
    arguments = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 3,
    } | settings
    return Trainer(
        model, TrainingArguments(**arguments), data_collator=collate, train_dataset=rows(), eval_dataset=rows(4)
    )


def losses(run: Trainer) -> list[float]:
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


@pytest.mark.parametrize(
    ("make", "head", "objective"),
    [
        (causal, "softmax", "mle"),
        (causal, "cache", "mle"),
        (causal, "mos:2+mi:1x2", "mle"),
        (causal, "softmax+cpr:3,5+mi:1x2", "mle"),
        (causal, "pg", "mle"),
        (causal, "ps", "mle"),
        (causal, "copynet", "mle"),
        (seq2seq, "cache", "mle"),
        (seq2seq, "softmax+cepr:3", "mle"),
        (seq2seq, "pg", "mle"),
    ],
)
def test_loss_does_not_depend_on_how_a_batch_is_cut(make, head: str, objective: str, tmp_path: Path) -> None:
    seen = []
    for size, steps in ((8, 1), (2, 4)):
        model = make(head, objective)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0  # dropout draws differ between the two cuts
        run = trainer(model, tmp_path / str(size), per_device_train_batch_size=size, gradient_accumulation_steps=steps)
        run.train()
        seen.append(losses(run))
    torch.testing.assert_close(torch.tensor(seen[0]), torch.tensor(seen[1]), rtol=1e-4, atol=1e-4)


def test_logged_loss_is_nats_per_target(tmp_path: Path) -> None:
    model = causal("cache").eval()
    run = trainer(model, tmp_path, per_device_eval_batch_size=4)
    found = run.evaluate()["eval_loss"]
    batch = collate(list(rows(4)))
    distribution = model.distribution(batch["input_ids"])
    targets = torch.nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=-100).flatten()
    kept = targets != -100
    log_prob = distribution.log_prob(targets.clamp_min(0)[:, None])[kept]
    assert found == pytest.approx(-log_prob.mean().item(), abs=1e-5)


def test_evaluation_collects_no_logits_unless_asked(tmp_path: Path) -> None:
    model = causal("cache")
    assert trainer(model, tmp_path, prediction_loss_only=True).predict(rows(4)).predictions is None
    assert trainer(model, tmp_path).predict(rows(4)).predictions.shape == (4, LENGTH, V)


def test_training_makes_no_logits() -> None:
    model = causal("cache").train()
    batch = collate(list(rows(4)))
    assert "logits" not in model(**batch)
    assert model(**batch, return_logits=True).logits.shape == (4, LENGTH, V)
    assert model.eval()(**batch).logits.shape == (4, LENGTH, V)
    assert "logits" not in model(**batch, return_logits=False)


@pytest.mark.parametrize(
    ("head", "objective"), [("mos:2+mi:1x2", "mle"), ("cache", "histalign"), ("mos:2+cpr:3", "mle"), ("ps", "mle")]
)
def test_resumed_training_is_bit_for_bit_the_uninterrupted_one(head: str, objective: str, tmp_path: Path) -> None:
    whole = causal(head, objective)
    trainer(whole, tmp_path / "whole", save_strategy="steps", save_steps=2).train()
    shutil.rmtree(tmp_path / "whole" / "checkpoint-4")
    resumed = causal(head, objective)
    run = trainer(resumed, tmp_path / "whole", save_strategy="steps", save_steps=2)
    run.train(resume_from_checkpoint=True)
    assert run.state.global_step == 4
    for (name, theirs), ours in zip(whole.named_parameters(), resumed.parameters(), strict=True):
        assert torch.equal(theirs, ours), name


def test_trainer_learns(tmp_path: Path) -> None:
    for head, objective in (("softmax+mi:1x2", "mle"), ("mos:3", "mle"), ("cache", "histalign"), ("sigsoftmax", "mle")):
        run = trainer(causal(head, objective), tmp_path / head.replace(":", "-"), max_steps=12)
        run.train()
        assert losses(run)[-1] < losses(run)[0] - 0.1, head
