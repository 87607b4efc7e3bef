"""Time of a training step (forward and backward) of each head, as a ratio over transformers' own GPT-2.

All models live in one process and take turns, so that whatever else the machine does meets them alike; the ratio is the
median of the ratios of single rounds. Rows are appended to ``benchmarks/data/training_step.csv``.

    python benchmarks/training_step.py                       # the sizes of docs/results/wikitext2-heads.md
    python benchmarks/training_step.py --size gpt2-small     # 12 layers, D = 768, V = 50,257
"""

from __future__ import annotations

import argparse
import copy
import statistics
from functools import partial
from pathlib import Path

import torch
from interleaved import interleaved, ratio, training_step
from rows import append
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.records import Environment

HEADS = (
    "softmax", "softmax+mi", "mos:3+mi", "pg+mi", "ps+mi", "copynet+mi", "softmax+c+mi", "softmax+p+mi",
    "softmax+r:20,100+mi", "softmax+cpr:20,100+mi", "mos:3+cpr:20,100+mi", "cache",
)  # fmt: skip
RIVAL = "transformers GPT2LMHeadModel"
SIZES: dict[str, tuple[dict[str, int], tuple[int, int]]] = {
    "tiny": ({"vocab_size": 8000, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256}, (8, 256)),
    "gpt2-small": ({}, (2, 200)),
}
"""Settings of the GPT-2, and batch x tokens."""


def measured(size: str, heads: list[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, by head."""
    settings, (batch, length) = SIZES[size]
    torch.manual_seed(0)
    bare = GPT2LMHeadModel(GPT2Config(**settings, bos_token_id=0, eos_token_id=0)).train()
    # text-like: half of the tokens occurred before
    ids = torch.randint(1, bare.config.vocab_size, (batch, length))
    ids[:, length // 2 :] = ids.gather(1, torch.randint(0, length // 2, (batch, length - length // 2)))
    models = {RIVAL: bare} | {head: nw.attach(copy.deepcopy(bare), head).train() for head in heads}
    steps = {name: partial(training_step, model, input_ids=ids, labels=ids) for name, model in models.items()}
    return interleaved(steps, rounds)


def main() -> None:
    """Measures, prints and appends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--head", action="append", help="head spec; several may be given (default: those of the paper)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "training_step.csv")
    given = parser.parse_args()
    seconds = measured(given.size, given.head or list(HEADS), given.rounds)
    environment = Environment.collect()
    rows = []
    for name, own in seconds.items():
        rows.append(
            {
                "size": given.size,
                "model": name,
                "ms": f"{1000 * statistics.median(own):.0f}",
                "ratio": f"{ratio(own, seconds[RIVAL]):.2f}",
                "rounds": given.rounds,
                **environment.model_dump(mode="json", exclude={"python", "platform"}),
            }
        )
        print(f"{name:32} {rows[-1]['ms']:>7} ms  {rows[-1]['ratio']:>5} x", flush=True)
    append(given.out, rows)


if __name__ == "__main__":
    main()
