"""Time of a training step and of a decoding step with ``f2``, as ratios over plain softmax in the same process.

Tokens follow Zipf's law (Mandelbrot's form), as those of a text do, and classes are made from the same law. All models
take turns in one process; ratios are medians of the ratios of single rounds. Decoding is timed as one call of
``generate`` after a prompt, less the same call for one token, so that reading the prompt is left out. Rows are appended
to ``benchmarks/data/f2_speed.csv``.

    python benchmarks/f2_speed.py                      # the model of F2-Softmax, V = 30,000
    python benchmarks/f2_speed.py --size gpt2-small    # 12 layers, D = 768, V = 50,257
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from interleaved import Timed, interleaved, ratio, training_step
from rows import append
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.frequency import TokenCounts
from nextword.records import Environment

RIVAL = "transformers GPT2LMHeadModel"
SIZES: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "f2-paper": ({"vocab_size": 30_000, "n_embd": 512, "n_layer": 12, "n_head": 8}, (2, 200)),
    "f2-lyrics": ({"vocab_size": 40_000, "n_embd": 512, "n_layer": 12, "n_head": 8}, (2, 200)),
    "gpt2-small": ({}, (2, 200)),
    "small": ({"vocab_size": 30_000, "n_embd": 128, "n_layer": 3, "n_head": 4}, (8, 256)),
}
"""Settings of the GPT-2, and batch x tokens of the training step."""

PROMPT, NEW = 64, 32
"""Tokens of the prompt, and tokens written after it."""


def law(size: int) -> np.ndarray:
    """Counts of 100 million tokens by Zipf-Mandelbrot, s = 1.1, q = 5, in random order of ids."""
    weights = 1 / (np.arange(1, size + 1) + 5.0) ** 1.1
    counts = np.round(1e8 * weights / weights.sum()).astype(np.int64)
    return np.random.default_rng(0).permutation(counts)


def training(models: dict[str, Any], ids: torch.Tensor) -> Timed:
    """Seconds of one forward and backward pass of each model."""

    def step(model: Any) -> float:
        return training_step(model.train(), input_ids=ids, labels=ids)

    return {name: partial(step, model) for name, model in models.items() if name != "f2, full posterior"}


def decoding(models: dict[str, Any], ids: torch.Tensor) -> Timed:
    """Seconds of one sampled token of every row, by each model."""

    def written(model: Any, new: int, **settings: Any) -> float:
        torch.manual_seed(0)
        start = time.perf_counter()
        model.generate(
            ids, do_sample=True, top_k=20, max_new_tokens=new, min_new_tokens=new, pad_token_id=0, **settings
        )
        return time.perf_counter() - start

    def step(name: str) -> float:
        settings = {"decoupled": False} if name == "f2, full posterior" else {}
        model = models[name].eval()
        return (written(model, NEW, **settings) - written(model, 1, **settings)) / (NEW - 1)

    return {name: partial(step, name) for name in models}


def built(size: str, counts: np.ndarray) -> dict[str, Any]:
    """The rival, plain softmax and f2 on copies of one model."""
    torch.manual_seed(0)
    bare = GPT2LMHeadModel(GPT2Config(**SIZES[size][0], bos_token_id=0, eos_token_id=None, pad_token_id=0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npz"
        TokenCounts(counts, None, "Zipf-Mandelbrot").save(path)
        # class embeddings at random: they do not matter to the time, but let every class be drawn
        f2 = nw.attach(copy.deepcopy(bare), {"head": "f2", "counts": str(path), "start": "random"})
    return {RIVAL: bare, "softmax": nw.attach(copy.deepcopy(bare), "softmax"), "f2": f2, "f2, full posterior": f2}


def main() -> None:
    """Measures, prints and appends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="f2-paper")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "f2_speed.csv")
    given = parser.parse_args()
    counts = law(int(SIZES[given.size][0].get("vocab_size", 50_257)))
    models = built(given.size, counts)
    batch, length = SIZES[given.size][1]
    frequencies = torch.from_numpy(counts).double()

    def text(rows: int, tokens: int) -> torch.Tensor:
        return torch.multinomial(frequencies, rows * tokens, replacement=True).view(rows, tokens)

    parts = {f"training step, {batch} x {length}": training(models, text(batch, length))}
    parts |= {f"decoding step, batch {rows}": decoding(models, text(rows, PROMPT)) for rows in (1, 8)}
    environment = Environment.collect()
    for part, timed in parts.items():
        rows = []
        seconds = interleaved(timed, given.rounds)
        for name, own in seconds.items():
            ratios = (ratio(own, seconds[rival]) for rival in (RIVAL, "softmax"))
            rows.append(
                {
                    "size": given.size,
                    "vocabulary": len(counts),
                    "classes": models["f2"].next_word_head.facts()["classes"],
                    "part": part,
                    "model": name,
                    "ms": f"{1000 * statistics.median(own):.1f}",
                    **dict(zip(("over_transformers", "over_softmax"), (f"{r:.2f}" for r in ratios), strict=True)),
                    "rounds": given.rounds,
                    **environment.model_dump(mode="json", exclude={"python", "platform"}),
                }
            )
            shown = rows[-1]
            print(f"{part:24} {name:30} {shown['ms']:>8} ms  {shown['over_transformers']:>5} x", flush=True)
        append(given.out, rows)


if __name__ == "__main__":
    main()
