"""Compiles passes with labels and prints what came of it; run by test_graph_breaks.py in a process of its own.

The shape checks of the test run cannot be traced, so it must be a process without them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from tests.helpers.families import PAD, inputs, labels
from tests.helpers.head_specs import refused_pairs, specs, with_head

FEW = {
    "gpt2 f2": ("gpt2", "f2", "mle"),
    "llama cache": ("llama", "cache", "mle"),
    "gpt2 softmax/unlikelihood+seq, tokens": ("gpt2", "softmax", "unlikelihood+seq:1e-9,2x2"),
    "gpt2 softmax/unlikelihood+seq, sequences": ("gpt2", "softmax", "unlikelihood+seq:1,2x2"),
}
"""Family, head and objective; compiling each takes a few seconds."""
OTHERS = {
    "gpt2 cache/histalign": ("gpt2", "cache", "histalign"),
    "gpt2 softmax/unlikelihood": ("gpt2", "softmax", "unlikelihood"),
    "gpt2 softmax/face:opr": ("gpt2", "softmax", "face:opr"),
} | {
    f"{family} {head}": (family, head, "mle")
    for family in ("gpt2", "llama")
    for head in specs()
    if f"{family} {head}" not in FEW and (family, head) not in refused_pairs()
}


def batch(model: Any, seed: int) -> dict[str, Tensor]:
    """Three rows, one of them padded, in another place for another seed."""
    given = inputs(model, seed)
    padding = torch.arange(given["input_ids"].shape[1]) < torch.tensor([[0], [3], [seed % 3]])
    ids = given["input_ids"].masked_fill(padding, PAD)
    mask = (~padding).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": labels({"input_ids": ids, "attention_mask": mask})}


def learned(model: Any, call: Callable[..., Any], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The loss, its parts and the gradients of every weight, from the same counts and random numbers each time."""
    kept = [(buffer, buffer.clone()) for buffer in model.objective.buffers()]
    model.zero_grad()
    loss = call(**given, use_cache=False).loss
    loss.backward()
    for buffer, before in kept:
        buffer.copy_(before)
    gradients = {name: weight.grad.to_dense() for name, weight in model.named_parameters() if weight.grad is not None}
    return {"loss": loss.detach(), **model.loss_parts, **gradients}


def compare(family: str, head: str, objective: str) -> dict[str, Any]:
    """Reasons of graph breaks, numbers of graphs after one batch and after two, largest difference from eager."""
    torch._dynamo.reset()
    counters.clear()
    model = with_head(family, specs().get(head, head), objective, torch.float64).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    compiled, graphs, gaps = torch.compile(model, backend="aot_eager"), [], []
    for seed in (3, 4):
        given = batch(model, seed)
        eager, ours = learned(model, model, given), learned(model, compiled, given)
        assert eager.keys() == ours.keys(), sorted(eager.keys() ^ ours.keys())
        gaps.append(max(float((eager[name] - ours[name]).abs().max()) for name in eager))
        graphs.append(counters["stats"]["unique_graphs"])
    breaks = {_reason(why): count for why, count in counters["graph_break"].items()}
    return {"breaks": breaks, "graphs": graphs, "gap": max(gaps)}


def _reason(report: str) -> str:
    """The reason that we give, or the whole report of the compiler where the break is none of ours."""
    found = re.search(r"\(reason: (nextword: .*?)\)\.?\n", report)
    return found[1] if found else report


if __name__ == "__main__":
    torch.set_num_threads(1)
    cases = FEW if sys.argv[1] == "few" else {sys.argv[1]: OTHERS[sys.argv[1]]}
    print(json.dumps({name: compare(*case) for name, case in cases.items()}))
