"""A head's own training step beside the matrix products that it cannot do without, in turns in one process.

    python benchmarks/head_step.py
    python benchmarks/head_step.py --shapes 262144x640 --threads 2 --rounds 2
    python benchmarks/head_step.py --shapes 20000x128 --out step.json    # a try

States to loss to gradients, processor seconds in float32. With a frozen output embedding two products are needed,
scores and the gradient of the states, otherwise the gradient of the embedding as well. Each product is measured in
several layouts, whole and in pieces, into memory that is there already; the fastest counts. Writes
docs/records/head-step.json and its page; rows of shapes and threads that are not measured again stay.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu import RECORDS, save
from interleaved import interleaved, ratio
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.heads.context import Context, Layout
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.head_cache.head_cache import DynamicHeadCache
from nextword.results.records import Environment

SHAPES = ("49152x576", "262144x640")
STEPS = ("softmax+proj", "softmax", "softmax unlikelihood")
"""Head, and objective if it is another than ``mle``."""
LENGTH, PIECE = 256, 1024


def processor_seconds(run: Callable[[], object]) -> float:
    """Of one call, all threads together."""
    began = time.process_time()
    run()
    return time.process_time() - began


class Products:
    """The products of a step, each in several ways."""

    def __init__(self, states: torch.Tensor, weight: torch.Tensor) -> None:
        self.states, self.weight = states, weight
        tokens, width, vocabulary = len(states), states.shape[1], len(weight)
        memory = torch.full((tokens * (vocabulary + 64),), 1e-3)
        self.scores = memory.view(tokens, -1)[:, :vocabulary]  # rows that begin in different lines of the cache
        self.turned = memory[: tokens * vocabulary].view(vocabulary, tokens)
        self.of_states, self.of_weight = torch.empty(tokens, width), torch.empty(vocabulary, width)

    def ways(self) -> dict[str, dict[str, Callable[[], object]]]:
        """By product and by layout."""
        states, weight, scores, turned = self.states, self.weight, self.scores, self.turned
        pieces = [slice(start, start + PIECE) for start in range(0, len(weight), PIECE)]
        return {
            "scores": {
                "whole": partial(torch.mm, states, weight.T, out=scores),
                "transposed": partial(torch.mm, weight, states.T, out=turned),
                "pieces": lambda: [torch.mm(states, weight[rows].T, out=scores[:, rows]) for rows in pieces],
            },
            "gradient of the states": {"whole": partial(torch.mm, scores, weight, out=self.of_states)},
            "gradient of the embedding": {
                "whole": partial(torch.mm, scores.T, states, out=self.of_weight),
                "transposed": partial(torch.mm, turned, states, out=self.of_weight),
            },
        }


def step_of(bare: Any, name: str, states: torch.Tensor, ids: torch.Tensor, frozen: bool) -> Callable[[], float]:
    """A training step from states, as ``model(labels=...)`` asks it of head and objective."""
    head, _, objective = name.partition(" ")
    model = nw.attach(bare, head, objective or "mle").train()
    read = model.next_word_head
    targets = ids[:, 1:].flatten()

    def step() -> float:
        bare.requires_grad_(not frozen)
        rows = states.detach().requires_grad_(not frozen)
        cache, given = DynamicHeadCache(), torch.ones_like(ids[:, 1:], dtype=torch.bool)
        vocabulary = OutputLayer(bare)
        inputs = read.inputs(rows, (), given, cache).flatten(0, 1)
        layout = Layout.full(*given.shape, given.device)
        context = Context(rows.flatten(0, 1), inputs, layout.slot, layout, vocabulary, None)
        loss = model.objective(read, context, targets).total / len(targets)
        loss.backward()
        bare.zero_grad(set_to_none=True)
        read.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step


def measured(vocabulary: int, width: int, tokens: int, threads: int, rounds: int, names: Sequence[str]) -> list[Any]:
    """A row for each step, with a frozen output embedding if the head has parameters of its own, and without."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    sizes = {"hidden_size": width, "vocab_size": vocabulary, "intermediate_size": 64, "num_hidden_layers": 1}
    bare: Any = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=1, tie_word_embeddings=True))
    length = min(LENGTH, tokens)
    states = torch.randn(tokens // length, length, width)
    ids = (torch.rand(tokens // length, length + 1) ** 3 * vocabulary).long()  # some tokens often, most of them seldom
    weight = bare.get_output_embeddings().weight.detach()
    ways = Products(states.flatten(0, 1), weight).ways()
    steps = {
        (name, frozen): step_of(bare, name, states, ids, frozen)
        for name in names
        for frozen in (True, False)
        if not (frozen and name.partition(" ")[0] == "softmax")  # then nothing is trained
    }
    timed = {f"{product} {way}": run for product, of in ways.items() for way, run in of.items()}
    timed |= {f"{name} {frozen}": run for (name, frozen), run in steps.items()}
    seconds = interleaved({name: partial(processor_seconds, run) for name, run in timed.items()}, rounds)
    best = [min((seconds[f"{product} {way}"] for way in of), key=statistics.median) for product, of in ways.items()]
    rows = []
    for name, frozen in steps:
        needed = [sum(parts) for parts in zip(*best[: 2 if frozen else 3], strict=True)]
        own = seconds[f"{name} {frozen}"]
        rows.append(
            {
                "setting": f"{tokens:,} x {vocabulary:,}, width {width:,}", "threads": threads, "step": name,
                "embedding": "frozen" if frozen else "trained", "rounds": rounds,
                "products": statistics.median(needed), "seconds": statistics.median(own), "ratio": ratio(own, needed),
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def record(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The record of docs/records/head-step.md."""
    environment = Environment.collect().model_dump(mode="json")
    cells = [
        [
            *(str(row[key]) for key in ("setting", "threads", "step", "embedding")),
            *(f"{row[key]:.2f}" for key in ("products", "seconds", "ratio")),
        ]
        for row in rows
    ]
    about = (
        "One training step of a head from given states (states to loss to gradients), beside the matrix products that "
        "it needs: scores and gradient of the states, and with a trained output embedding the gradient of that. "
        "Processor seconds in float32; each product in its fastest layout, without the memory that it fills; the "
        f"ratio is the median over interleaved rounds. torch {environment.get('torch', torch.__version__)}."
    )
    columns = ["tokens x vocabulary", "threads", "head, objective", "embedding", "products, s", "step, s", "ratio"]
    return {
        "title": "Performance",
        "name": "The step of a head",
        "guide": "../performance.md",
        "about": about,
        "sections": [
            {"title": "A training step", "parts": [{"caption": "", "columns": columns, "rows": cells}]},
            {"title": "Command", "parts": [{"commands": ["python benchmarks/head_step.py"], "shell": True}]},
        ],
        "measured": rows,
        "environment": environment,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shapes", nargs="+", default=list(SHAPES), help="vocabulary x width")
    options.add_argument("--tokens", type=int, default=1024)
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", nargs="+", default=list(STEPS))
    options.add_argument("--out", type=Path, default=RECORDS / "head-step.json")
    given = options.parse_args(argv)
    former = json.loads(given.out.read_text(encoding="utf-8"))["measured"] if given.out.exists() else []
    keys = ("setting", "threads", "step", "embedding")
    rows = {tuple(row[key] for key in keys): row for row in former}
    for shape in given.shapes:
        vocabulary, width = map(int, shape.split("x"))
        for threads in given.threads:
            found = measured(vocabulary, width, given.tokens, threads, given.rounds, given.steps)
            rows |= {tuple(row[key] for key in keys): row for row in found}
    save(given.out, record(list(rows.values())))


if __name__ == "__main__":
    main()
