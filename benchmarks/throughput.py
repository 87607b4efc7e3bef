"""Measures the speed of scoring, checking and evaluating.

- ``scoring``: tokens per second of the task ``lm``'s log-probabilities, relative to transformers' own logits and
  cross-entropy on the same backbone; rounds are interleaved, the ratio is the median over rounds.
- ``check``: seconds of ``nextword.check`` on a tiny model with each head.
- ``evaluate``: samples per second of ``nextword.evaluate``, for 2,000 samples of 100 tokens with references.

Rows are appended to ``benchmarks/data/throughput.csv``.

    python benchmarks/throughput.py
    python benchmarks/throughput.py --part scoring --device cuda --dtype bfloat16
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from interleaved import interleaved, ratio, seconds_of
from options import method, parser, settled
from rows import append, surroundings
from shapes import attached, backbone
from texts import drawn, repeating
from torch import Tensor
from torch.nn import functional as F

import nextword as nw
from nextword.evaluation.all_systems import evaluate

HEADS = ("softmax", "softmax+mi", "cache", "softmax+c", "copynet", "ps", "pg", "softmax+r:20", "softmax+cpr:20,100+mi",
         "mos:3", "f2")  # fmt: skip
METRICS = ("distinct", "diversity", "seq-rep", "self-bleu", "zipf", "unigram-kl", "bleu")
Row = dict[str, Any]


def scoring(given: argparse.Namespace) -> list[Row]:
    """Tokens a second of the targets' log-probabilities, without gradients."""
    size, batch, length = ("toy", 2, 16) if given.quick else ("gpt2-small", 4, 256)
    bare = backbone(size, given.device, given.dtype).eval()
    ids = repeating(bare.config.vocab_size, batch, length + 1).to(given.device)

    def baseline() -> Tensor:
        return -F.cross_entropy(bare(ids[:, :-1]).logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")

    def ours(model: Any) -> Tensor:
        scored = torch.ones_like(ids[:, :-1], dtype=torch.bool)
        dist = model.distribution(ids[:, :-1], attention_mask=scored.long(), positions=scored)
        found: Tensor = dist.log_prob(ids[:, 1:][scored][:, None])
        return found

    runs: dict[str, Callable[[], object]] = {f"transformers {type(bare).__name__}": baseline}
    runs |= {head: partial(ours, attached(bare, head).eval()) for head in given.head or HEADS}
    with torch.no_grad():
        timed = {name: partial(seconds_of, run, given.device) for name, run in runs.items()}
        seconds = interleaved(timed, given.rounds)
    theirs = next(iter(seconds.values()))
    return [
        _row("scoring", name, batch * length / statistics.median(own), "tokens/s", given.rounds, ratio(theirs, own))
        for name, own in seconds.items()
    ]


def checking(given: argparse.Namespace) -> list[Row]:
    """Seconds of the checker."""
    rows = []
    for head in given.head or HEADS:
        model = attached(backbone("toy", given.device, given.dtype), head)
        seconds = [seconds_of(partial(nw.check, model)) for _ in range(given.rounds)]
        rows.append(_row("check", head, statistics.median(seconds), "s", given.rounds))
    return rows


def evaluating(given: argparse.Namespace) -> list[Row]:
    """Samples a second, every metric alone and all in one reading of the file."""
    number, tokens = (40, 20) if given.quick else (2_000, 100)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        path.write_text("".join(f"{json.dumps(one)}\n" for one in made_up(number, tokens)), encoding="utf-8")
        for metrics in (*([metric] for metric in METRICS), list(METRICS)):
            settings = {"systems": {"made up": [str(path)]}, "metrics": metrics}
            seconds = [seconds_of(partial(evaluate, settings)) for _ in range(given.rounds)]
            name = metrics[0] if len(metrics) == 1 else f"all {len(metrics)}"
            rows.append(_row("evaluate", name, number / statistics.median(seconds), "samples/s", given.rounds))
    return rows


def made_up(number: int, tokens: int) -> list[dict[str, str]]:
    """Samples with references, of words that follow Zipf's law."""
    words = drawn(20_000, 2 * number, tokens).tolist()
    texts = [" ".join(f"w{token}" for token in text) for text in words]
    return [{"prompt": "", "text": texts[2 * i], "reference": texts[2 * i + 1]} for i in range(number)]


def _row(part: str, name: str, value: float, unit: str, rounds: int, over: float | None = None) -> Row:
    return {
        "part": part, "name": name, "value": f"{value:.4g}", "unit": unit,
        "ratio": "" if over is None else f"{over:.3f}", "rounds": rounds,
    }  # fmt: skip


PARTS = {"scoring": scoring, "check": checking, "evaluate": evaluating}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "throughput")
    options.add_argument(
        "--part", action="append", choices=PARTS, help="part to measure; may be repeated (default: all)"
    )
    options.add_argument(
        "--head", action="append", type=method, help="head to measure; may be repeated (default: every head)"
    )
    given = settled(options, argv)
    seen = surroundings()
    for part in given.part or PARTS:
        where = {"device": given.device, "dtype": given.dtype}
        rows = [row | where | seen for row in PARTS[part](given)]
        for row in rows:
            print(f"{part:10} {row['name']:32} {row['value']:>9} {row['unit']:10} {row['ratio']:>6}", flush=True)
        append(given.out, rows)


if __name__ == "__main__":
    main()
