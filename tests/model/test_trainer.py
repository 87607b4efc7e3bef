"""transformers.Trainer, unchanged: accumulation, evaluation, resuming."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.helpers.trainer_runs import LENGTH, V, causal, collate, losses, rows, seq2seq, trainer

pytest.importorskip("accelerate", reason="Trainer needs it")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize(("make", "head"), [(causal, "softmax"), (causal, "cache"), (seq2seq, "softmax+cepr:3")])
def test_label_smoothing_smooths_the_next_token(make, head: str, tmp_path: Path) -> None:
    """Trainer makes this loss from the logits, and shifts the labels of decoder-only models whose name it knows."""
    model = make(head).eval()
    run = trainer(model, tmp_path, label_smoothing_factor=0.1)
    batch = collate(list(rows(4)))
    if model.config.is_encoder_decoder:  # as transformers' collator for such models does
        batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels=batch["labels"])
    with torch.no_grad():
        loss = run.compute_loss(model, dict(batch))
        answer = model(**{key: given for key, given in batch.items() if key != "labels"})
    scores, labels = answer.logits.double(), batch["labels"]
    if not model.config.is_encoder_decoder:
        scores, labels = scores[:, :-1], labels[:, 1:]
    log_probs, counted = scores.log_softmax(-1), labels != -100
    of_labels = log_probs.gather(-1, labels.clamp_min(0)[..., None])[..., 0]
    expected = -(0.9 * of_labels + 0.1 * log_probs.mean(-1))[counted].mean()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
