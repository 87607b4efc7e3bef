"""Measures the time of training and decoding steps with ``f2``, relative to plain softmax in the same process.

Tokens follow the Zipf-Mandelbrot law, as in real text, and the classes are computed from the same law. The rounds of
all models are interleaved; a ratio is the median over rounds. Decoding time is one call of ``generate`` minus the same
call for one token, so the prompt is not included. Rows are appended to ``benchmarks/data/f2_speed.csv``.

    python benchmarks/f2_speed.py                      # the model of F2-Softmax, V = 30,000
    python benchmarks/f2_speed.py --size gpt2-small    # 12 layers, D = 768, V = 50,257
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from interleaved import Timed, interleaved, ratio, training_step
from rows import append
from shapes import attached, backbone
from texts import drawn

from nextword.results.records import Environment

BASELINE = "transformers GPT2LMHeadModel"
SIZES = {"f2-paper": (2, 200), "f2-lyrics": (2, 200), "gpt2-small": (2, 200), "small": (8, 256)}
"""Batch x tokens of the training step, by shape."""

PROMPT, NEW = 64, 32
"""Tokens of the prompt, and tokens written after it."""


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


def built(size: str) -> dict[str, Any]:
    """The baseline, plain softmax and f2 on one backbone."""
    bare = backbone(size)
    # class embeddings at random: they do not matter to the time, but let every class be drawn
    f2 = attached(bare, "f2")
    return {BASELINE: bare, "softmax": attached(bare, "softmax"), "f2": f2, "f2, full posterior": f2}


def main() -> None:
    """Measures, prints and appends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="f2-paper")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "f2_speed.csv")
    given = parser.parse_args()
    models = built(given.size)
    batch, length = SIZES[given.size]
    vocabulary = models[BASELINE].config.vocab_size
    parts = {f"training step, {batch} x {length}": training(models, drawn(vocabulary, batch, length))}
    parts |= {
        f"decoding step, batch {rows}": decoding(models, drawn(vocabulary, rows, PROMPT, seed=1)) for rows in (1, 8)
    }
    environment = Environment.collect()
    for part, timed in parts.items():
        rows = []
        seconds = interleaved(timed, given.rounds)
        for name, own in seconds.items():
            ratios = (ratio(own, seconds[baseline]) for baseline in (BASELINE, "softmax"))
            rows.append(
                {
                    "size": given.size,
                    "vocabulary": vocabulary,
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
