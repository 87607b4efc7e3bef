"""Measures time and memory of a training step with each head, relative to transformers' own model.

All models are in one process, on one backbone, and run interleaved with the baseline, so background load affects both;
the time ratio is the median over rounds. Memory is the peak above the model and its gradients: ``peak`` is that of the
whole step, ``head`` is ``peak`` minus the peak of the backbone alone. Rows are appended to
``benchmarks/data/training_cost.csv``.

    python benchmarks/training_step.py                         # all that has a target: GPT-2 small, T5 small, HistAlign
    python benchmarks/training_step.py --suite gpt2-small --head mos:3
    python benchmarks/training_step.py --suite gpt2-small --device cuda --dtype bfloat16 --batch 8 --length 1024
    python benchmarks/training_step.py --model my-model --head cache --batch 1
    python benchmarks/training_step.py --suite tiny            # the sizes of docs/results/wikitext2-heads.md
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interleaved import beside, ratio, ratios
from options import at_least, method, own_model, parser, settled
from rows import append, surroundings
from shapes import T5, attached, backbone
from steps import Inputs, Step, backbone_alone, language_model, linear_losses, with_loss
from texts import repeating


@dataclasses.dataclass(frozen=True)
class Suite:
    """What is compared.

    Args:
        size: Shape of the backbone, or folder of a saved model.
        methods: Heads, or heads and objectives.
        batch: Sequences.
        length: Tokens of each.
        baseline: The method that all are compared with; transformers' own model where it is None.
        others: Whether the losses of others for plain softmax take part.
        vocabulary: Words, where not as many as the shape has.
    """

    size: str
    methods: tuple[str, ...]
    batch: int = 2
    length: int = 200
    baseline: str | None = None
    others: bool = False
    vocabulary: int | None = None


SUITES: dict[str, Suite] = {
    "gpt2-small": Suite(
        "gpt2-small",
        ("softmax", "softmax+mi", "cache", "softmax+c", "copynet", "ps", "pg", "softmax+r:20", "softmax+cpr:20,100+mi",
         "mos:3", "f2"),
        others=True,
    ),
    "t5-small": Suite("t5-small", ("softmax", "softmax+e")),
    "histalign": Suite("gpt2-small", ("cache", "cache/histalign"), length=512, baseline="cache"),
    "tiny": Suite(
        "tiny",
        ("softmax", "softmax+mi", "mos:3+mi", "pg+mi", "ps+mi", "copynet+mi", "softmax+c+mi", "softmax+p+mi",
         "softmax+r:20,100+mi", "softmax+cpr:20,100+mi", "mos:3+cpr:20,100+mi", "cache"),
        batch=8,
        length=256,
    ),
}  # fmt: skip

ALONE = "the backbone alone, without head and loss"
WITH_TARGETS = ("gpt2-small", "t5-small", "histalign")


def steps_of(suite: Suite, device: str, dtype: str) -> tuple[dict[str, Step], dict[str, Step]]:
    """The training steps by name, the baseline first, and the backbone alone for each of them."""
    bare = backbone(suite.size, device, dtype, positions=suite.length, vocabulary=suite.vocabulary).train()
    ids = repeating(bare.config.vocab_size, suite.batch, suite.length).to(device)
    labels = repeating(bare.config.vocab_size, suite.batch, suite.length, seed=2).to(device)
    inputs: Inputs = {"input_ids": ids, "labels": labels if bare.config.is_encoder_decoder else ids}
    bare_name = f"transformers {type(bare).__name__}"
    steps = {bare_name: language_model(bare, inputs)} if suite.baseline is None else {}
    alone = dict.fromkeys(steps, backbone_alone(bare, inputs))
    if suite.baseline is None:
        # its default keeps a KV cache even in training, which ours does not
        steps[f"{bare_name}, use_cache=False"] = language_model(bare, inputs, use_cache=False)
    for name in suite.methods:
        steps[name] = language_model(attached(bare, name).train(), inputs)
    if suite.others and not bare.config.is_encoder_decoder:
        losses, missing = linear_losses(device)
        steps |= {name: with_loss(bare, inputs, loss) for name, loss in losses.items()}
        for name, reason in missing.items():
            print(f"{name}: left out, {reason}")
    without_cache = backbone_alone(bare, inputs, use_cache=False)
    if suite.baseline is None:
        steps[ALONE] = without_cache  # what no head can go below
    return steps, {name: alone.get(name, without_cache) for name in steps}


def measured(suite: Suite, device: str, dtype: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each model."""
    steps, alone = steps_of(suite, device, dtype)
    baseline = suite.baseline or next(iter(steps))
    seconds = beside({name: step.seconds for name, step in steps.items()}, baseline, rounds)
    below = {id(step): step.peak() for step in {id(step): step for step in alone.values()}.values()}
    peaks = {name: step.peak() for name, step in steps.items()}
    heads = {name: peak - below[id(alone[name])] for name, peak in peaks.items()}
    rows = []
    for name, (own, theirs) in seconds.items():
        single = ratios(own, theirs)
        rows.append(
            {
                "baseline": baseline,
                "model": name,
                "ms": f"{1000 * statistics.median(own):.1f}",
                "time_ratio": f"{ratio(own, theirs):.3f}",
                "time_lowest": f"{min(single):.3f}",
                "time_highest": f"{max(single):.3f}",
                "peak_mb": f"{peaks[name] / 1e6:.2f}",
                "peak_ratio": f"{peaks[name] / peaks[baseline]:.3f}",
                "head_mb": f"{heads[name] / 1e6:.2f}",
                "head_ratio": f"{heads[name] / heads[baseline]:.3f}",
                "rounds": rounds,
            }
        )
    return rows


def chosen(given: argparse.Namespace) -> dict[str, Suite]:
    """The suites that were asked for, with what the command line changes about them."""
    suites = {}
    for name in given.suite or (("gpt2-small",) if given.model else WITH_TARGETS):
        suite = SUITES[name]
        changes: dict[str, Any] = {"batch": given.batch or suite.batch, "length": given.length or suite.length}
        if given.quick:
            changes |= {"size": "toy-t5" if suite.size in T5 else "toy", "length": given.length or 32}
        if given.model:
            changes["size"] = given.model
        if given.head:
            changes["methods"] = tuple(dict.fromkeys([*([suite.baseline] if suite.baseline else []), *given.head]))
            changes["others"] = False
        suites[Path(given.model).resolve().name if given.model else name] = dataclasses.replace(suite, **changes)
    return suites


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "training_cost")
    options.add_argument("--suite", action="append", choices=SUITES, help="suite to run; may be repeated")
    options.add_argument(
        "--head", action="append", type=method, help="head or head/objective to measure, instead of those of the suite"
    )
    options.add_argument("--batch", type=at_least(1), help="batch size, in sequences")
    options.add_argument("--length", type=at_least(2), help="tokens per sequence")
    own_model(options)
    given = settled(options, argv)
    seen = surroundings()
    for name, suite in chosen(given).items():
        where = {
            "suite": name, "size": suite.size, "batch": suite.batch, "length": suite.length, "device": given.device,
            "dtype": given.dtype,
        }  # fmt: skip
        rows = [where | row | seen for row in measured(suite, given.device, given.dtype, given.rounds)]
        for row in rows:
            print(
                f"{row['model']:46} {row['ms']:>8} ms {row['time_ratio']:>6} x  peak {row['peak_mb']:>8} MB "
                f"{row['peak_ratio']:>6} x  head {row['head_mb']:>8} MB {row['head_ratio']:>6} x",
                flush=True,
            )
        append(given.out, rows)


if __name__ == "__main__":
    main()
