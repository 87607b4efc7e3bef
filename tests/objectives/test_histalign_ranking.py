"""Weights of heights against all pairs written out, the order of the entries, and the forms by name."""

from __future__ import annotations

import pytest
import torch

from nextword.objectives import objective_spec, parse_objective
from nextword.objectives.histalign import REDUCTIONS, Nearness, RankedMemory, visible_first

N, S = 40, 60


def memory(seed: int, **changes: float) -> RankedMemory:
    """Up to 12 positives in front, some entries of either kind hidden, some heights equal."""
    chance = torch.Generator().manual_seed(seed)
    heights = torch.randn(N, S, generator=chance, dtype=torch.float64).mul(4).round() / 4
    first = torch.arange(S) < torch.randint(1, 13, (N, 1), generator=chance)
    seen = torch.rand(N, S, generator=chance) < 0.7
    seen[:5] = False
    return RankedMemory(heights, first & seen, ~first & seen)


def of_all_pairs(memories: list[RankedMemory], reduction: str) -> torch.Tensor:
    """The reduced hinges, from one number for each position and two entries."""
    found = []
    for one in memories:
        paired = one.positive[:, :, None] & one.negative[:, None]
        hinges = torch.relu(one.heights[:, None] - one.heights[:, :, None])[paired]
        row, i, j = paired.nonzero(as_tuple=True)
        found.append((hinges, row + N * len(found), j - i))
    hinges, row, offset = (torch.cat(parts) for parts in zip(*found, strict=True))
    means = {
        name: torch.stack([hinges[kind == one].mean() for one in kind.unique()])
        for name, kind in (("row", row), ("offset", offset))
    }
    return {
        "position_mean": means["row"].sum,
        "pair_sum": hinges.sum,
        "pair_mean": hinges.mean,
        "offset_mean": means["offset"].mean,
        "offset_sum": means["offset"].sum,
    }[reduction]()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights_are_the_gradient_of_all_pairs(reduction: str) -> None:
    memories = [memory(0), memory(1)]
    for one in memories:
        one.heights.requires_grad_()
    expected = of_all_pairs(memories, reduction)
    expected.backward()
    with torch.no_grad():
        weigh = REDUCTIONS[reduction](memories)
        weights = [weigh(one) for one in memories]
    value = sum((one.heights * own).sum() for one, own in zip(memories, weights, strict=True))
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    for one, own in zip(memories, weights, strict=True):
        torch.testing.assert_close(own, one.heights.grad, rtol=1e-12, atol=1e-12)
        assert torch.allclose(own.sum(-1), own.new_zeros(()), atol=1e-12)


def test_entries_are_ordered_by_cosine_then_by_place_and_padding_comes_last() -> None:
    angles = torch.tensor([0.0, 0.3, 0.6, 0.3])  # tokens 1 and 3 point the same way
    embedding = torch.stack([angles.cos(), angles.sin()], 1) * torch.tensor([1.0, 3.0, 0.5, 3.0])[:, None]
    ids = torch.tensor([[3, 2, 1, 0, 3, 0]])
    ranked = torch.tensor([[True, True, True, True, True, False]])
    order = Nearness(embedding, ids).order(torch.zeros(3, dtype=torch.long), torch.tensor([0, 0, 1]), ranked)
    assert order.tolist() == [[3, 0, 2, 4, 1, 5], [3, 0, 2, 4, 1, 5], [2, 0, 4, 1, 3, 5]]
    seen = torch.tensor([[False, True, True, False, True, False]]).expand(3, -1)
    order, visible = visible_first(order, seen.gather(1, order))
    assert order.tolist() == [[2, 4, 1, 3, 0, 5], [2, 4, 1, 3, 0, 5], [2, 4, 1, 0, 3, 5]]
    assert visible.sum(-1).tolist() == [3, 3, 3]


DEFAULT = {"base": "trime", "reduction": "position_mean", "ranks": "valid", "embedding": "input"}
FORMS = {
    "histalign": DEFAULT | {"memory_values": "inputs"},
    "histalign:labels": DEFAULT | {"memory_values": "labels"},
    "histalign:paper": {
        "base": "mle", "reduction": "pair_sum", "ranks": "valid", "embedding": "output", "memory_values": "inputs",
    },
    "histalign:released": {
        "base": "trime", "reduction": "offset_mean", "ranks": "all", "embedding": "input", "memory_values": "labels",
    },
    "histalign:released,inputs": {
        "base": "trime", "reduction": "offset_mean", "ranks": "all", "embedding": "input", "memory_values": "inputs",
    },
    "histalign:released-bart": {
        "base": "trime", "reduction": "offset_sum", "ranks": "all", "embedding": "input", "memory_values": "inputs",
    },
}  # fmt: skip


@pytest.mark.parametrize("spec", FORMS)
def test_forms_by_name(spec: str) -> None:
    config = parse_objective(spec)
    settings = config.model_dump()
    assert {key: settings[key] for key in FORMS[spec]} == FORMS[spec]
    assert (config.alpha, config.margin) == (1.0, 0.001)
    assert objective_spec(config) == spec
    assert parse_objective(settings) == config


def test_settings_saved_before_there_were_forms_are_read_as_they_were() -> None:
    saved = {
        "objective": "histalign", "seq": None, "base": "trime", "alpha": 0.5, "margin": 0.001,
        "reduction": "offset_mean", "ranks": "all", "memory_values": "inputs",
    }  # fmt: skip
    config = parse_objective(saved)
    assert config.model_dump() == {**saved, "embedding": "input"}
    assert objective_spec(config) == "histalign:released,inputs,alpha=0.5"
