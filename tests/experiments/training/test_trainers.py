"""A training on consecutive segments: its loss is the textbook form, its rows are in order, and labels are refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.trainers import consecutive_rows
from nextword.model.head_cache.kv_cache import LongMemory
from tests.helpers.segmented_text import LENGTH, data, model, text
from tests.helpers.tiny_trainings import settings, tiny_gpt2


def loss_and_gradient(ours: Any, **inputs: Any) -> tuple[float, torch.Tensor]:
    ours.zero_grad()
    loss = ours.eval()(**inputs).loss  # without dropout
    loss.backward()
    return loss.item(), ours.get_output_embeddings().weight.grad.clone()


def test_a_batch_sees_all_before_it_and_gradients_stay_in_it() -> None:
    ours, ids, memory = model().double(), text(6), LongMemory()
    for rows in ids.split(3):
        found = loss_and_gradient(ours, input_ids=rows, labels=rows, memory=memory)
    # the textbook form of the second batch, its keys of the first taken as numbers
    ours.zero_grad()
    states = ours.backbone.transformer(ids)[0]
    keys = torch.cat([states[:3].detach(), states[3:]]).flatten(0, 1)
    total = torch.zeros((), dtype=torch.float64)
    for row in range(3, 6):
        for place in range(LENGTH - 1):  # the last of a row has no target
            here = row * LENGTH + place
            seen = range(max(0, here - 40), here)
            similar = torch.stack([states[row, place] @ keys[j] for j in seen]) / states.shape[-1] ** 0.5
            scores, target = ours.get_output_embeddings()(states[row, place]), ids[row, place + 1]
            same = torch.tensor([int(ids.flatten()[j + 1]) == int(target) for j in seen])
            right = torch.cat([scores[target][None], similar[same]]).logsumexp(0)
            total = total + torch.cat([scores, similar]).logsumexp(0) - right
    loss = total / (3 * (LENGTH - 1))
    loss.backward()
    assert found[0] == pytest.approx(loss.item(), abs=1e-10)
    torch.testing.assert_close(found[1], ours.get_output_embeddings().weight.grad, rtol=0, atol=1e-10)


def test_rows_are_read_in_order_from_one_that_the_seed_chooses() -> None:
    orders = [consecutive_rows(30, seed) for seed in range(4)]
    assert all(sorted(order) == list(range(30)) for order in orders)
    assert all((after - before) % 30 == 1 for order in orders for before, after in itertools.pairwise(order))
    assert len({order[0] for order in orders}) > 1


@pytest.mark.parametrize("objective", ["mle:labels", "histalign:labels"])
def test_labels_of_former_steps_are_not_known_and_are_refused(tmp_path, objective: str) -> None:
    ours = nw.attach(tiny_gpt2(), "cache:published,long=40", objective=objective)
    with pytest.raises(ValueError, match="memory_values: 'labels'"):
        fit(ours, data(), settings(consecutive=True), seed=1, folder=tmp_path)
    rows = text(2)
    assert ours.train()(input_ids=rows, labels=rows).loss > 0
    with pytest.raises(ValueError, match="memory_values: 'labels'"):
        ours(input_ids=rows, labels=rows, past_key_values=ours.eval()(input_ids=rows).past_key_values)
