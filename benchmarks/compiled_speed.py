"""Measures the speed-up by ``torch.compile`` of a training step and of a decoding step, with and without heads.

A training step is one forward and backward pass of ``torch.compile(model)``. Decoding is ``generate`` with a static
cache, whose steps transformers compiles, compared with the dynamic cache without compilation; time is measured as in
``decoding_speed.py``. ``f2`` decodes with its full distribution here, because its choice of a class is not compiled.
All models have backbones with equal weights and are compiled before their rounds are interleaved. ``gain`` is the time
of the uncompiled step divided by that of the compiled step. The last two columns are the times of both, relative to
transformers' own model in the same mode. All are medians over rounds. Rows are appended to
``benchmarks/data/compiled_speed.csv``.

    python benchmarks/compiled_speed.py
    python benchmarks/compiled_speed.py --head softmax+cpr:20,100 --what training
    python benchmarks/compiled_speed.py --device cuda --dtype bfloat16 --size gpt2-small --batch 8 --length 1024
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from decoding_speed import Writer
from interleaved import Timed, interleaved, ratio, training_step
from options import at_least, method, parser, settled
from rows import append, surroundings
from shapes import GPT2, attached, backbone
from texts import repeating
from torch import Tensor
from transformers import CompileConfig

HEADS = ("softmax", "cache", "softmax+cpr:20,100", "mos:3", "pg", "f2")
WHAT = ("training", "decoding")

Pair = dict[bool, Callable[[], float]]
"""Seconds of a step, of the compiled one under True."""


def training(bare: Callable[[], Any], head: str | None, ids: Tensor) -> Pair:
    """A training step; each has a model of its own, which shares nothing with the other."""
    models = {compiled: _with(bare(), head).train() for compiled in (False, True)}
    called = models | {True: torch.compile(models[True])}

    def seconds(compiled: bool) -> float:
        taken = training_step(called[compiled], input_ids=ids, labels=ids, use_cache=False)
        models[compiled].zero_grad(set_to_none=True)
        return taken

    return {compiled: partial(seconds, compiled) for compiled in models}


def decoding(bare: Callable[[], Any], head: str | None, prompts: Tensor, new: int) -> Pair:
    """A step of greedy search."""
    config: Any = CompileConfig()
    config._compile_all_devices = True  # transformers leaves a CPU out
    whole = {"decoupled": False} if head == "f2" else {}
    static = {"cache_implementation": "static", "compile_config": config}
    settings: dict[bool, dict[str, Any]] = {False: whole, True: whole | static}
    writers = {compiled: Writer(_with(bare(), head).eval(), own) for compiled, own in settings.items()}
    return {compiled: partial(writer.seconds, prompts, new, 1) for compiled, writer in writers.items()}


def _with(bare: Any, head: str | None) -> Any:
    return bare if head is None else attached(bare, head)


def measured(pairs: dict[str, Pair], baseline: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each model."""
    timed: Timed = {(name, compiled): run for name, pair in pairs.items() for compiled, run in pair.items()}  # type: ignore[misc]
    for run in timed.values():
        run()
        run()  # sizes that change compile once more
    found: Any = interleaved(timed, rounds)
    return [
        {
            "model": name,
            "ms_eager": f"{1000 * statistics.median(found[name, False]):.2f}",
            "ms_compiled": f"{1000 * statistics.median(found[name, True]):.2f}",
            "gain": f"{ratio(found[name, False], found[name, True]):.3f}",
            "over_bare_eager": f"{ratio(found[name, False], found[baseline, False]):.3f}",
            "over_bare_compiled": f"{ratio(found[name, True], found[baseline, True]):.3f}",
            "rounds": rounds,
        }
        for name in pairs
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "compiled_speed", rounds=11)
    options.add_argument("--size", choices=GPT2, default="four-layers")
    options.add_argument(
        "--head", action="append", type=method, help="head to measure; may be repeated (default: six heads)"
    )
    options.add_argument("--what", choices=WHAT, nargs="+", default=list(WHAT))
    options.add_argument("--batch", type=at_least(1), default=8, help="texts per training step")
    options.add_argument("--length", type=at_least(2), default=128, help="tokens per text and per prompt")
    options.add_argument("--new", type=at_least(2), default=32, help="generated tokens; the first is not timed")
    given = settled(options, argv, size="toy", batch=2, length=16, new=4, head=["softmax"])
    seen = surroundings()
    torch._dynamo.config.recompile_limit = 64  # of all models together, which have their code in common
    bare = partial(backbone, given.size, given.device, given.dtype, positions=given.length + given.new)
    baseline = f"transformers {type(bare()).__name__}"
    names: dict[str, str | None] = {baseline: None} | {head: head for head in given.head or HEADS}
    ids = repeating(bare().config.vocab_size, given.batch, given.length).to(given.device)
    for what in given.what:
        if what == "training":
            pairs = {name: training(bare, head, ids) for name, head in names.items()}
        else:
            pairs = {name: decoding(bare, head, ids[:1], given.new) for name, head in names.items()}
        batch = given.batch if what == "training" else 1
        where = {
            "what": what, "size": given.size, "batch": batch, "length": given.length, "device": given.device,
            "dtype": given.dtype,
        }  # fmt: skip
        rows = [where | row | seen for row in measured(pairs, baseline, given.rounds)]
        for row in rows:
            print(
                f"{what} {row['model']:28} {row['ms_eager']:>8} ms, compiled {row['ms_compiled']:>8} ms: "
                f"{row['gain']} x; relative to transformers {row['over_bare_eager']} and {row['over_bare_compiled']}",
                flush=True,
            )
        append(given.out, rows)


if __name__ == "__main__":
    main()
