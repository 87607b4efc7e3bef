"""Measures the time of each head, relative to transformers' own model: evaluation, training step, decoding step.

Evaluation is ``model(input_ids, labels=...)`` in evaluation mode without gradients, which returns loss and logits, as
in Trainer's evaluation. A training step is the same call in training mode with a backward pass, and decoding is greedy
``generate`` after the same text. All heads share one backbone. Their rounds are interleaved with transformers' own
model, which runs before each of them; a ratio is the median over rounds. Rows are appended to
``benchmarks/data/head_cost.csv``.

    python benchmarks/head_cost.py
    python benchmarks/head_cost.py --model my-model --head cache --what evaluation --rounds 4
    python benchmarks/head_cost.py --device cuda --dtype bfloat16 --batch 8
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from decoding_speed import Writer
from interleaved import Timed, beside, ratio, ratios, seconds_of, training_step
from options import at_least, method, own_model, parser, settled
from rows import append, surroundings
from shapes import GPT2, attached, backbone
from texts import repeating
from torch import Tensor

HEADS = ("softmax", "softmax+cpr:20,100+mi", "pg", "copynet", "cache:temperature=8,weight=0.05", "mos:3")
WHAT = ("evaluation", "training", "decoding")


def evaluation(model: Any, ids: Tensor, new: int) -> float:
    """Seconds of a call with labels, without gradients."""
    with torch.no_grad():
        return seconds_of(partial(model.eval(), input_ids=ids, labels=ids, use_cache=False), str(ids.device))


def training(model: Any, ids: Tensor, new: int) -> float:
    """Seconds of a call with labels and of its backward pass."""
    return training_step(model.train(), input_ids=ids, labels=ids, use_cache=False)


def decoding(model: Any, ids: Tensor, new: int) -> float:
    """Seconds of a step of greedy search after one of the texts."""
    return Writer(model.eval(), {}).seconds(ids[:1], new, 1)


SECONDS: dict[str, Callable[[Any, Tensor, int], float]] = dict(zip(WHAT, (evaluation, training, decoding), strict=True))


def measured(what: str, models: dict[str, Any], ids: Tensor, new: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each model; the first is the one that the others are compared with."""
    baseline = next(iter(models))
    timed: Timed = {name: partial(SECONDS[what], model, ids, new) for name, model in models.items()}
    rows = []
    for name, (own, theirs) in beside(timed, baseline, rounds).items():
        single = ratios(own, theirs)
        rows.append(
            {
                "model": name,
                "ms": f"{1000 * statistics.median(own):.1f}",
                "ratio": f"{ratio(own, theirs):.3f}",
                "lowest": f"{min(single):.3f}",
                "highest": f"{max(single):.3f}",
                "rounds": rounds,
            }
        )
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "head_cost", rounds=5)
    options.add_argument("--size", choices=GPT2, default="gpt2-small")
    options.add_argument(
        "--head", action="append", type=method, help="head to measure; may be repeated (default: six heads)"
    )
    options.add_argument("--what", choices=WHAT, nargs="+", default=list(WHAT))
    options.add_argument("--batch", type=at_least(1), default=1, help="batch size; decoding uses one text")
    options.add_argument("--length", type=at_least(2), default=1024, help="tokens per text")
    options.add_argument("--new", type=at_least(2), default=16, help="generated tokens; the first is not timed")
    own_model(options)
    given = settled(options, argv, size="toy", batch=2, length=16, new=4)
    seen = surroundings()
    size = given.model or given.size
    bare = backbone(size, given.device, given.dtype, positions=given.length + given.new)
    models = {f"transformers {type(bare).__name__}": bare}
    models |= {name: attached(bare, name) for name in given.head or HEADS}
    ids = repeating(bare.config.vocab_size, given.batch, given.length).to(given.device)
    for what in given.what:
        where = {
            "what": what, "size": Path(size).name, "batch": given.batch, "length": given.length, "new": given.new,
            "device": given.device, "dtype": given.dtype,
        }  # fmt: skip
        rows = [where | row | seen for row in measured(what, models, ids, given.new, given.rounds)]
        for row in rows:
            print(f"{what:10} {row['model']:34} {row['ms']:>8} ms {row['ratio']:>6} x", flush=True)
        append(given.out, rows)


if __name__ == "__main__":
    main()
