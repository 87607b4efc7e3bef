"""A training on batches of rows that are alike: its loss is that of one text, it goes on where it was, and refuses."""

from __future__ import annotations

import pytest
import torch

import nextword as nw
from nextword.training.one_training import train
from nextword.training.segments.alike_rows import alike_rows
from nextword.training.segments.alike_trainer import AlikeTrainer
from tests.helpers.segmented_text import LENGTH, data, model, text
from tests.helpers.tiny_trainings import killed_at, settings, tiny_gpt2, weights

pytest.importorskip("bm25s")


def test_each_batch_is_seen_whole_and_alone(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row once an epoch, in the order of ``alike_rows``; a batch's loss is that of a memory of its own."""
    seen: list[torch.Tensor] = []
    own = AlikeTrainer.compute_loss

    def watched(self, ours, inputs, *args, **kwargs):
        seen.append(inputs["input_ids"])
        return own(self, ours, inputs, *args, **kwargs)

    monkeypatch.setattr(AlikeTrainer, "compute_loss", watched)
    train(model(), data(), settings(alike=True, steps=None, epochs=2), seed=1, folder=tmp_path)
    order = alike_rows(text().tolist(), 4, seed=1)
    for epoch in torch.cat(seen).split(len(order)):
        assert torch.equal(epoch, text()[order])


def test_the_loss_is_that_of_one_text_made_of_the_batch(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step's: each place sees its batch's rows before it, and nothing of another batch."""
    losses: list[float] = []
    own = AlikeTrainer.compute_loss

    def watched(self, ours, inputs, *args, **kwargs):
        losses.append(own(self, ours.eval().train(), inputs, *args, **kwargs).item())
        return own(self, ours, inputs, *args, **kwargs)

    monkeypatch.setattr(AlikeTrainer, "compute_loss", watched)
    ours = model()
    for part in ours.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    begun = {name: value.clone() for name, value in ours.state_dict().items()}
    train(ours, data(), settings(alike=True, steps=2), seed=1, folder=tmp_path)
    ours.load_state_dict(begun)
    ids = text()[alike_rows(text().tolist(), 4, seed=1)[:4]]
    states, embeddings = ours.backbone.transformer(ids)[0], ours.get_output_embeddings()
    keys, total = states.flatten(0, 1), 0.0
    for row in range(4):
        for place in range(LENGTH - 1):
            here = row * LENGTH + place
            similar = keys[max(0, here - 40) : here] @ states[row, place] / states.shape[-1] ** 0.5
            scores, target = embeddings(states[row, place]), ids[row, place + 1]
            same = ids.flatten()[max(0, here - 40) + 1 : here + 1] == target
            total += torch.cat([scores, similar]).logsumexp(0).item()
            total -= torch.cat([scores[target][None], similar[same]]).logsumexp(0).item()
    assert losses[0] == pytest.approx(total / (4 * (LENGTH - 1)), abs=1e-5)


def test_what_is_interrupted_goes_on(tmp_path) -> None:
    asked = settings(alike=True, save_every=2)
    whole, parts = model(), model()
    train(whole, data(), asked, seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(parts, data(), asked, seed=1, folder=tmp_path / "parts", progress=killed_at(5))
    parts = model()
    train(parts, data(), asked, seed=1, folder=tmp_path / "parts")
    for name, value in weights(whole).items():
        assert torch.equal(value, parts.state_dict()[name]), name


def test_the_memory_changes_what_is_learned(tmp_path) -> None:
    long, short = model(), model(f"cache:long={LENGTH}")
    for ours, folder in ((long, "long"), (short, "short")):
        train(ours, data(), settings(alike=True), seed=1, folder=tmp_path / folder)
    assert not torch.equal(long.get_output_embeddings().weight, short.get_output_embeddings().weight)


@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_a_head_that_sees_its_window_alone_is_refused(tmp_path, head: str) -> None:
    with pytest.raises(ValueError, match=r"training.alike: must be with a head that looks back.*cache:long"):
        train(nw.attach(tiny_gpt2(), head), data(), settings(alike=True), seed=1, folder=tmp_path)


def test_not_with_consecutive() -> None:
    with pytest.raises(ValueError, match="either consecutive or alike"):
        settings(alike=True, consecutive=True)
