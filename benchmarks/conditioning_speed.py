"""Measures the time of training and decoding steps with each conditioner, relative to transformers' own GPT-2.

The rounds of all models are interleaved in one process; a ratio is the median over rounds. Models are trained
completely (``trains="decoder"``), like the baseline, and again with the conditioner's default. Auxiliary texts are
given as states, because a comparison also encodes each text once. Decoding time is one call of ``generate`` minus the
same call for one token. Rows are appended to ``benchmarks/data/conditioning_speed.csv``.

    python benchmarks/conditioning_speed.py                      # 12 layers, D = 512, V = 30,000
    python benchmarks/conditioning_speed.py --size gpt2-small    # 12 layers, D = 768, V = 50,257
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from interleaved import Timed, interleaved, ratio, training_step
from rows import append
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.results.records import Environment

BASELINE = "transformers GPT2LMHeadModel"
CONDITIONERS = ("dau", "lmh", "bergpt", "bergpt:12", "prefix")
SIZES: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "middle": ({"vocab_size": 30_000, "n_embd": 512, "n_layer": 12, "n_head": 8}, (2, 200)),
    "gpt2-small": ({}, (2, 200)),
}
"""Settings of the GPT-2, and batch x tokens of the training step."""

WIDTH, PLACES = 384, 64
"""Width of the encoder's states, and tokens of an auxiliary text."""

PROMPT, NEW = 64, 32
"""Tokens of the prompt, and tokens written after it."""


def built(size: str) -> dict[str, Any]:
    """The baseline, plain softmax, and softmax with every conditioner, on copies of one model."""
    torch.manual_seed(0)
    bare = GPT2LMHeadModel(GPT2Config(**SIZES[size][0], bos_token_id=0, eos_token_id=None, pad_token_id=0))
    reader = BertConfig(vocab_size=100, hidden_size=WIDTH, num_hidden_layers=1, intermediate_size=WIDTH)
    models: dict[str, Any] = {BASELINE: bare, "softmax": nw.attach(copy.deepcopy(bare), "softmax")}
    for name in CONDITIONERS:
        for trains in ("decoder", None):
            settings = {"conditioner": name, **({"trains": trains} if trains else {})}
            model = nw.attach(copy.deepcopy(bare), "softmax", conditioner=settings, encoder=BertModel(reader))
            models[f"{name}, all trained" if trains else f"{name}, frozen"] = model
    return models


def inputs_of(model: Any, rows: int) -> dict[str, Any]:
    """The auxiliary texts of a batch, for a model that takes some."""
    conditioned = getattr(model, "conditioner", None) is not None
    return {"aux_states": torch.randn(rows, PLACES, WIDTH)} if conditioned else {}


def training(models: dict[str, Any], ids: torch.Tensor) -> Timed:
    """Seconds of one forward and backward pass of each model."""
    return {
        name: partial(training_step, model.train(), input_ids=ids, labels=ids, **inputs_of(model, len(ids)))
        for name, model in models.items()
    }


def decoding(models: dict[str, Any], ids: torch.Tensor) -> Timed:
    """Seconds of one greedy token of every row, by each model."""

    def written(model: Any, new: int, inputs: dict[str, Any]) -> float:
        start = time.perf_counter()
        model.generate(ids, max_new_tokens=new, min_new_tokens=new, pad_token_id=0, do_sample=False, **inputs)
        return time.perf_counter() - start

    def step(model: Any, inputs: dict[str, Any]) -> float:
        model.eval()
        return (written(model, NEW, inputs) - written(model, 1, inputs)) / (NEW - 1)

    asked = {name: model for name, model in models.items() if not name.endswith("frozen")}
    return {name: partial(step, model, inputs_of(model, len(ids))) for name, model in asked.items()}


def main() -> None:
    """Measures, prints and appends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="middle")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "conditioning_speed.csv")
    given = parser.parse_args()
    models = built(given.size)
    size = models[BASELINE].config.vocab_size
    batch, length = SIZES[given.size][1]
    parts = {f"training step, {batch} x {length}": training(models, torch.randint(size, (batch, length)))}
    parts |= {
        f"decoding step, batch {rows}": decoding(models, torch.randint(1, size, (rows, PROMPT))) for rows in (1, 8)
    }
    environment = Environment.collect()
    for part, timed in parts.items():
        seconds = interleaved(timed, given.rounds)
        rows = [
            {
                "size": given.size,
                "part": part,
                "model": name,
                "ms": f"{1000 * statistics.median(own):.1f}",
                "over_transformers": f"{ratio(own, seconds[BASELINE]):.2f}",
                "over_softmax": f"{ratio(own, seconds['softmax']):.2f}",
                "rounds": given.rounds,
                **environment.model_dump(mode="json", exclude={"python", "platform"}),
            }
            for name, own in seconds.items()
        ]
        for row in rows:
            print(f"{part:24} {row['model']:30} {row['ms']:>8} ms  {row['over_transformers']:>5} x", flush=True)
        append(given.out, rows)


if __name__ == "__main__":
    main()
