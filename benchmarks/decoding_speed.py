"""Measures the speed of ``generate`` with each head, relative to transformers' own output layer on the same model.

Every run generates exactly ``--new`` tokens after a prompt. Time is measured from the first to the last new token, so
the prompt is not included. All models share one backbone, and their rounds are interleaved with those of the baseline;
the ratio of tokens per second is the median over rounds. With ``--memory`` each row also has the peak memory above the
model, and the largest single tensor, while the prompt is processed and two tokens are generated. Rows are appended to
``benchmarks/data/decoding_speed.csv``.

    python benchmarks/decoding_speed.py --new 256 --memory             # the full run: hours on two cores
    python benchmarks/decoding_speed.py --new 32                       # the same figures with more noise
    python benchmarks/decoding_speed.py --new 32 --batch 1 --beams 1   # greedy search in one text only
    python benchmarks/decoding_speed.py --size three-layers --new 32 --batch 1 --beams 1 --prompt 512 1024 2048 4096
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from interleaved import beside, finished, ratio
from options import at_least, method, own_model, parser, settled
from peak_memory import largest_bytes, peak_bytes
from rows import append, surroundings
from shapes import GPT2, attached, backbone
from texts import repeating
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

HEADS = ("softmax", "softmax+mi", "cache", "softmax+c", "copynet", "ps", "pg", "softmax+r:20", "softmax+cpr:20,100+mi",
         "mos:3", "f2")  # fmt: skip
WHOLE = "f2, not decoupled"


class Stamps(StoppingCriteria):
    """Stops nothing, and notes when each step is done."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.times: list[float] = []

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """A mask of texts that are finished: none is."""
        self.times.append(finished(self.device))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


@dataclass(frozen=True)
class Writer:
    """A model that continues texts.

    Args:
        model: With ``generate``.
        settings: Further arguments of ``generate``.
    """

    model: Any
    settings: dict[str, Any]

    def write(self, prompts: Tensor, new: int, beams: int) -> Stamps:
        """Writes ``new`` tokens; the times when each was done."""
        stamps = Stamps(str(prompts.device))
        self.model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=new,
            min_new_tokens=new,
            num_beams=beams,
            do_sample=False,
            stopping_criteria=StoppingCriteriaList([stamps]),
            **self.settings,
        )
        return stamps

    def seconds(self, prompts: Tensor, new: int, beams: int) -> float:
        """Seconds of a step, over all steps but the first, which reads the prompt."""
        times = self.write(prompts, new, beams).times
        assert len(times) == new, f"{len(times)} steps in place of {new}"
        return (times[-1] - times[0]) / (new - 1)


def writers(size: str, heads: Sequence[str], device: str, dtype: str, positions: int) -> dict[str, Writer]:
    """The baseline, then every head on the same backbone."""
    bare = backbone(size, device, dtype, positions=positions).eval()
    found = {f"transformers {type(bare).__name__}": Writer(bare, {})}
    for head in heads:
        model = attached(bare, head).eval()
        found[head] = Writer(model, {})
        if head == "f2":
            found[WHOLE] = Writer(model, {"decoupled": False})
    return found


def measured(
    models: dict[str, Writer], prompts: Tensor, new: int, beams: int, rounds: int, memory: bool
) -> list[dict[str, Any]]:
    """A row for each model; in beam search ``f2`` always takes the whole distribution, so it has one row."""
    models = {name: writer for name, writer in models.items() if beams == 1 or name != WHOLE}
    baseline = next(iter(models))
    timed = {name: partial(writer.seconds, prompts, new, beams) for name, writer in models.items()}
    rows = []
    for name, (own, theirs) in beside(timed, baseline, rounds).items():
        step = statistics.median(own)
        run = partial(models[name].write, prompts, 2, beams)
        device = str(prompts.device)
        rows.append(
            {
                "model": name,
                "ms_per_step": f"{1000 * step:.2f}",
                "tokens_per_second": f"{len(prompts) / step:.1f}",
                "ratio": f"{ratio(theirs, own):.3f}",
                "peak_mb": f"{peak_bytes(run, device) / 1e6:.1f}" if memory else "",
                "largest_mb": f"{largest_bytes(run, device) / 1e6:.1f}" if memory else "",
                "rounds": rounds,
            }
        )
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "decoding_speed")
    options.add_argument("--size", choices=GPT2, default="gpt2-small")
    options.add_argument(
        "--head", action="append", type=method, help="head to measure; may be repeated (default: every head)"
    )
    options.add_argument("--batch", type=at_least(1), nargs="+", default=[1, 8], help="batch size")
    options.add_argument("--beams", type=at_least(1), nargs="+", default=[1, 4], help="1 is greedy search")
    options.add_argument("--prompt", type=at_least(1), nargs="+", default=[512], help="prompt tokens")
    options.add_argument("--new", type=at_least(2), default=256, help="generated tokens; the first is not timed")
    options.add_argument("--memory", action="store_true", help="also measure the peak memory and the largest tensor")
    own_model(options)
    given = settled(options, argv, size="toy", prompt=[16], new=4, memory=True)
    seen = surroundings()
    given.size = given.model or given.size
    models = writers(given.size, given.head or HEADS, given.device, given.dtype, max(given.prompt) + given.new)
    size = next(iter(models.values())).model.config.vocab_size
    for prompt, batch, beams in product(given.prompt, given.batch, given.beams):
        where = {
            "size": given.size, "batch": batch, "beams": beams, "prompt": prompt, "new": given.new,
            "device": given.device, "dtype": given.dtype,
        }  # fmt: skip
        prompts = repeating(size, batch, prompt).to(given.device)
        rows = [where | row | seen for row in measured(models, prompts, given.new, beams, given.rounds, given.memory)]
        for row in rows:
            print(
                f"batch {batch} beams {beams} prompt {prompt:>5} {row['model']:30} {row['ms_per_step']:>8} ms per step "
                f"{row['tokens_per_second']:>8} tokens/s {row['ratio']:>6} x",
                flush=True,
            )
        append(given.out, rows)


if __name__ == "__main__":
    main()
