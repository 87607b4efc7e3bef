"""Measures the cost of a cache beyond the window: a training step, scoring and decoding, by number of stored positions.

The model runs interleaved with a baseline that has the same window: in training and scoring the head ``cache`` without
``long``, in decoding the head ``softmax``. The positions are stored before timing starts, with random keys. ``ratio``
is the median over rounds; ``ms`` and ``baseline_ms`` belong to the round with this ratio, and ``lowest`` and
``highest`` to all rounds. ``largest_mb`` is the largest single tensor. Rows are appended to
``benchmarks/data/long_memory.csv``.

    python benchmarks/long_memory.py
    python benchmarks/long_memory.py --size four-layers --batch 8 --length 256
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from interleaved import beside, finished, ratios
from options import at_least, parser, settled
from peak_memory import largest_bytes
from rows import append, surroundings
from shapes import GPT2, attached, backbone
from texts import repeating
from torch import Tensor
from transformers import DynamicCache, StoppingCriteria, StoppingCriteriaList

from nextword.model.head_cache.kv_cache import LongMemory, put_head_cache_on


def remembering(model: Any, positions: int) -> LongMemory:
    """A memory of so many places."""
    config, generator = model.config.get_text_config(), torch.Generator().manual_seed(0)
    memory = LongMemory()
    ids = repeating(config.vocab_size, 1, positions)
    states = torch.randn(1, positions, config.hidden_size, generator=generator)
    streams = {name: stream.to(model.device, model.dtype) for name, stream in (("keys", states),)}
    memory.remember(ids.to(model.device), torch.ones_like(ids, dtype=torch.bool).to(model.device), streams)
    return memory


def trained(model: Any, ids: Tensor, kept: dict[str, Tensor] | None) -> None:
    """A step of training: loss and gradients."""
    model.train().zero_grad()
    model(input_ids=ids, labels=ids, return_logits=False, **_memory(kept)).loss.backward()


@torch.no_grad()
def scored(model: Any, ids: Tensor, kept: dict[str, Tensor] | None) -> None:
    """The log-probability of each token."""
    asked = {"positions": torch.ones_like(ids, dtype=torch.bool)}
    model.eval().distribution(ids, **asked, **_memory(kept)).log_prob(ids.flatten()[:, None])


def _memory(kept: dict[str, Tensor] | None) -> dict[str, LongMemory]:
    if kept is None:
        return {}
    memory = LongMemory()
    memory.keep(kept)
    return {"memory": memory}


class Stamps(StoppingCriteria):
    """Stops nothing, and notes when each step is done."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        """A mask of texts that are finished: none is."""
        self.times.append(finished(str(input_ids.device)))
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def written(model: Any, prompt: Tensor, new: int, kept: dict[str, Tensor] | None) -> float:
    """Seconds of a step of greedy search, over all but the first, which reads the prompt."""
    stamps, further = Stamps(), {}
    if kept is not None:
        cache, memory = DynamicCache(config=model.config.get_text_config()), _memory(kept)["memory"]
        memory.before_cache()
        put_head_cache_on(cache, memory)
        further = {"past_key_values": cache}
    model.eval().generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new, do_sample=False,
        stopping_criteria=StoppingCriteriaList([stamps]), **further,
    )  # fmt: skip
    return (stamps.times[-1] - stamps.times[0]) / (new - 1)


def seconds(run: Callable[[], None], device: str) -> float:
    """Of one call."""
    begin = finished(device)
    run()
    return finished(device) - begin


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints and appends."""
    options = parser(__doc__, "long_memory")
    options.add_argument("--size", choices=GPT2, default="gpt2-small")
    options.add_argument("--batch", type=at_least(1), default=2, help="segments per training step")
    options.add_argument("--length", type=at_least(2), default=256, help="tokens per segment")
    options.add_argument(
        "--places", type=at_least(1), default=8192, help="positions that the cache keeps in training and scoring"
    )
    options.add_argument(
        "--decoding-places", type=at_least(1), default=16_384, help="positions that the cache keeps in decoding"
    )
    options.add_argument("--new", type=at_least(3), default=32, help="generated tokens; the first is not timed")
    given = settled(options, argv, size="toy", batch=2, length=8, positions=40, decoding_positions=60, new=4)
    bare = backbone(given.size, given.device, given.dtype, positions=given.length + given.new)
    ids = repeating(bare.config.vocab_size, given.batch, given.length).to(given.device)
    window = attached(bare, "cache")
    long = attached(bare, f"cache:long={given.positions}")
    kept, positions = remembering(long, given.positions).kept(), {"window": 0, "long": given.positions}
    runs: dict[str, dict[str, Callable[[], None]]] = {
        kind: {"window": partial(step, window, ids, None), "long": partial(step, long, ids, kept)}
        for kind, step in (("training", trained), ("scoring", scored))
    }
    rows: list[dict[str, Any]] = []
    for kind, pair in runs.items():
        timed = {name: partial(seconds, run, given.device) for name, run in pair.items()}
        found = beside(timed, "window", given.rounds)
        largest = {name: largest_bytes(run, given.device) for name, run in pair.items()}
        rows += [_row(kind, name, positions[name], *found[name], largest[name]) for name in found]
    further = attached(bare, f"cache:long={given.decoding_positions}")
    far = remembering(further, given.decoding_positions).kept()
    prompt = ids[:1]
    timed = {
        "softmax": partial(written, attached(bare, "softmax"), prompt, given.new, None),
        "transformers": partial(written, bare, prompt, given.new, None),
        "window": partial(written, window, prompt, given.new, None),
        "long": partial(written, further, prompt, given.new, far),
    }
    for name, (own, theirs) in beside(timed, "softmax", given.rounds).items():
        rows.append(_row("decoding", name, given.decoding_positions if name == "long" else 0, own, theirs, 0))
    where = {"size": given.size, "batch": given.batch, "length": given.length}
    seen = {"rounds": given.rounds, "device": given.device, "dtype": given.dtype, **surroundings()}
    append(given.out, [where | row | seen for row in rows])


def _row(kind: str, name: str, positions: int, own: list[float], theirs: list[float], largest: int) -> dict[str, Any]:
    found = ratios(own, theirs)
    middle = statistics.median_low(found)
    at = found.index(middle)
    row = {
        "name": f"{kind}, {name}", "positions": positions, "ms": f"{1000 * own[at]:.1f}",
        "baseline_ms": f"{1000 * theirs[at]:.1f}", "ratio": f"{middle:.3f}", "lowest": f"{min(found):.3f}",
        "highest": f"{max(found):.3f}", "largest_mb": f"{largest / 1e6:.1f}" if largest else "",
    }  # fmt: skip
    print("  ".join(f"{value!s:>12}" for value in row.values()), flush=True)
    return row


if __name__ == "__main__":
    main()
