"""A training on batches of rows that are alike: its loss is that of one text, and it learns to copy from a store."""

from __future__ import annotations

import random

import pytest
import torch
from datasets import Dataset

import nextword as nw
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.trainers import Bm25BatchTrainer, similar_rows
from nextword.inference.datastore import build_datastore
from nextword.inference.scoring.opened_model import OpenedModel
from tests.helpers.segmented_text import LENGTH, data, model, text
from tests.helpers.small_datastores import written
from tests.helpers.tiny_trainings import VOCABULARY, settings
from tests.helpers.word_models import SPECIAL, word_tokenizer

pytest.importorskip("bm25s")

WORDS = [f"w{number}" for number in range(VOCABULARY - len(SPECIAL))]


def test_each_batch_is_seen_whole_and_alone(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row once an epoch, in the order of ``similar_rows``; a batch's loss is that of a memory of its own."""
    seen: list[torch.Tensor] = []
    own = Bm25BatchTrainer.compute_loss

    def watched(self, ours, inputs, *args, **kwargs):
        seen.append(inputs["input_ids"])
        return own(self, ours, inputs, *args, **kwargs)

    monkeypatch.setattr(Bm25BatchTrainer, "compute_loss", watched)
    fit(model(), data(), settings(alike=True, steps=None, epochs=2), seed=1, folder=tmp_path)
    order = similar_rows(text().tolist(), 4, seed=1)
    for epoch in torch.cat(seen).split(len(order)):
        assert torch.equal(epoch, text()[order])


def test_the_loss_is_that_of_one_text_made_of_the_batch(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step's: each place sees its batch's rows before it, and nothing of another batch."""
    losses: list[float] = []
    own = Bm25BatchTrainer.compute_loss

    def watched(self, ours, inputs, *args, **kwargs):
        losses.append(own(self, ours.eval().train(), inputs, *args, **kwargs).item())
        return own(self, ours, inputs, *args, **kwargs)

    monkeypatch.setattr(Bm25BatchTrainer, "compute_loss", watched)
    ours = model()
    for part in ours.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    begun = {name: value.clone() for name, value in ours.state_dict().items()}
    fit(ours, data(), settings(alike=True, steps=2), seed=1, folder=tmp_path)
    ours.load_state_dict(begun)
    ids = text()[similar_rows(text().tolist(), 4, seed=1)[:4]]
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


def test_not_with_consecutive() -> None:
    with pytest.raises(ValueError, match="consecutive, alike: must not both be given"):
        settings(alike=True, consecutive=True)


def pairs_of(chance: random.Random, count: int) -> list[str]:
    """Words of which the second always follows the first, and each stands in one pair."""
    words = chance.sample(WORDS, 2 * count)
    return [f"{first} {second}" for first, second in zip(words[::2], words[1::2], strict=True)]


def groups(count: int, chance: random.Random) -> list[str]:
    """Rows of three pairs; those of a group of four rows share their pairs, which hold in no other group."""
    of_groups = [pairs_of(chance, 4) for _ in range(count)]
    return [" ".join(chance.sample(pairs, 3)) for pairs in of_groups for _ in range(4)]


@pytest.mark.slow
def test_what_learned_to_copy_from_rows_that_are_alike_copies_from_a_store(tmp_path) -> None:
    """Training on batches by BM25, a store of texts with pairs that are new, and both under one normaliser."""
    tokenizer, chance = word_tokenizer(WORDS), random.Random(0)
    learned = [tokenizer("<s> " + row)["input_ids"] for row in groups(60, chance)]
    rows = Dataset.from_dict({"input_ids": learned, "labels": learned})
    new = pairs_of(chance, 12)
    stored = written(tmp_path / "stored.jsonl", [" ".join(new[begin : begin + 3]) for begin in range(0, 12, 3)])
    asked = torch.tensor([tokenizer("<s> " + " ".join(chance.sample(new, 3)))["input_ids"] for _ in range(20)])
    losses = {}
    for alike in (True, False):
        ours = model("cache:published,long=40")
        fit(ours, rows, settings(alike=alike, steps=150), seed=1, folder=tmp_path / f"alike-{alike}")
        opened, store = OpenedModel.of(ours, tokenizer), tmp_path / f"store-{alike}"
        build_datastore(opened, stored, store)
        over = nw.attach(ours, f'knn:store="{store}",k=8,mix=joint,distance=dot').eval()
        nw.check(over, [new[0][1]], tokenizer=tokenizer, lengths=[5]).raise_if_failed()
        with torch.no_grad():
            of_facts = torch.arange(asked.numel()).view(asked.shape)[:, [2, 5]].flatten()  # before the third words
            targets = asked[:, [3, 6]].reshape(-1, 1)
            for mode in ("joint", "below"):
                distribution = over.distribution(asked, mode=mode)[of_facts]
                losses[alike, mode] = -distribution.log_prob(targets).mean().item()
    assert losses[True, "joint"] < losses[True, "below"] - 0.3, "the pairs are in the store alone"
    assert losses[True, "joint"] < losses[False, "joint"] - 0.1, "it learned to look them up"
