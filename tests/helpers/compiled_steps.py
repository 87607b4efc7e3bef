"""Compiles decoding steps and prints what came of it; run by test_compiled.py in a process of its own.

The shape checks of the test run cannot be traced, so it must be a process without them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import StaticCache

from nextword.model.head_cache.kv_cache import LongMemory
from tests.helpers.generating_models import headed, prompt

FEW = {
    "gpt2 cache, left-padded": ("gpt2", "cache", [0, 2]),
    "gpt2 mos:2+mi, left-padded": ("gpt2", "mos:2+mi", [0, 2]),
    "gpt2 softmax+cpr:3,8+mi, left-padded": ("gpt2", "softmax+cpr:3,8+mi", [0, 2]),
    "gpt2 pg": ("gpt2", "pg", [0, 0]),
    "llama cache": ("llama", "cache", [0, 0]),
    "gpt2 long cache, left-padded": ("gpt2", "long cache", [0, 2]),
}
"""Family, head and padding; compiling each takes a second or two."""
OTHERS = {
    "gpt2 softmax": ("gpt2", "softmax", [0, 0]),
    "gpt2 cache": ("gpt2", "cache", [0, 0]),
    "gpt2 softmax+cpr:3,8+mi": ("gpt2", "softmax+cpr:3,8+mi", [0, 0]),
    "gpt2 mos:2+p": ("gpt2", "mos:2+p", [0, 0]),
    "gpt2 copynet": ("gpt2", "copynet", [0, 0]),
    "gpt2 ps+mi, left-padded": ("gpt2", "ps+mi", [0, 2]),
}


def masked(padding: list[int]) -> tuple[Tensor, Tensor]:
    mask = (torch.arange(9) >= torch.tensor(padding)[:, None]).long()
    return mask, (mask.cumsum(1) - 1).clamp_min(0)


def steps(model: Any, padding: list[int]) -> Tensor:
    """Five compiled steps after an uncompiled prompt of four tokens, prepared as generate prepares them."""
    ids = prompt()
    mask, positions = masked(padding)
    cache = StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=16)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    logits = []
    for start, end, call in [(0, 4, model), *((t, t + 1, compiled) for t in range(4, 9))]:
        inputs = model.prepare_inputs_for_generation(
            ids[:, start:end],
            past_key_values=cache,
            attention_mask=mask[:, :end] if any(padding) else None,
            position_ids=positions[:, start:end].contiguous(),
            use_cache=True,
        )
        logits.append(call(**inputs).logits)
    return torch.cat(logits, 1).log_softmax(-1)


@torch.no_grad()
def compare(family: str, head: str, padding: list[int]) -> dict[str, Any]:
    """Number of graphs, and largest difference from the complete sequence."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = headed(family, head)
    try:
        ours = steps(model, padding)
    except torch._dynamo.exc.Unsupported as fault:
        return {"broken": str(fault).splitlines()[0]}
    mask, positions = masked(padding)
    full = model.distribution(prompt(), mask, position_ids=positions, use_cache=False).log_probs().unflatten(0, (2, -1))
    gap = (ours.clamp_min(-30) - full.clamp_min(-30))[mask.bool()].abs().max().item()
    return {"graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"], "gap": gap}


@torch.no_grad()
def windows() -> float:
    """Largest difference that compiling makes where three windows of a text are read with a long memory."""
    torch._dynamo.reset()
    model, ids = headed("gpt2", "long cache"), prompt(3, 9)

    def read(call: Any) -> Tensor:
        memory = LongMemory()
        return torch.cat([call(input_ids=row[None], memory=memory).logits for row in ids], 1)

    gap: float = (read(torch.compile(model, backend="eager")) - read(model)).abs().max().item()
    return gap


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "windows":
        print(windows())
        sys.exit()
    cases = {"few": FEW, "others": OTHERS}[sys.argv[1]]
    print(json.dumps({name: compare(*case) for name, case in cases.items()}))
