"""A few of the outputs as numbers, which a fast test compares with those of an earlier version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tests.helpers.families import inputs, labels
from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, headed, prompt
from tests.helpers.golden.digests import or_refusal, seeded
from tests.helpers.golden.passes import HEADS, OBJECTIVES
from tests.helpers.head_specs import refused_pairs, with_head

KEPT = Path(__file__).parents[2] / "conformance" / "golden_outputs.json"
CARRIED = [head for head in HEADS if ("gpt2", head) not in refused_pairs(HEADS)]
"""Heads that a decoder-only model takes."""
WRITTEN = [("gpt2", head) for head in DECODERS["gpt2"]] + [("t5", head) for head in ENCODER_DECODERS["t5"]]
WRITTEN = [*WRITTEN, ("llama", "cache")]
PLACES = ((0, 0, 5), (0, 8, 11), (2, 4, 17), (2, 8, 30))
"""Row, position and token of the log-probabilities that are kept."""
NEW = 8
"""Tokens to generate."""


def losses(head: str) -> dict[str, float | str]:
    """Of every objective, without dropout, in double precision: nats, or why the head does not take the objective."""

    def loss(spec: Any) -> float:
        model = with_head("gpt2", HEADS[head], spec, torch.float64).train()
        model.backbone.eval()
        seeded()
        given = inputs(model)
        return float(model(**given, labels=labels(given)).loss.detach())

    return {objective: or_refusal(lambda spec=spec: loss(spec)) for objective, spec in OBJECTIVES.items()}


@torch.no_grad()
def log_probs(head: str) -> list[float]:
    """Of a few tokens at a few positions."""
    model = with_head("gpt2", HEADS[head], dtype=torch.float64)
    given = inputs(model)
    found = model.distribution(**given).log_probs().view(*given["input_ids"].shape, -1)
    return [float(found[place]) for place in PLACES]


def tokens(family: str, head: str) -> list[list[int]]:
    """What greedy search writes after two prompts."""
    written: list[list[int]] = headed(family, head).generate(prompt(), max_new_tokens=NEW, do_sample=False).tolist()
    return written


def kept() -> dict[str, Any]:
    """The values of the version that the file is of."""
    content: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return content


def rewrite() -> None:
    """Writes the values of this version; numbers to 13 digits, of which the test compares 9."""
    content = {
        "losses": {head: {name: _short(value) for name, value in losses(head).items()} for head in CARRIED},
        "log_probs": {head: [_short(value) for value in log_probs(head)] for head in CARRIED},
        "tokens": {f"{family} {head}": str(tokens(family, head)) for family, head in WRITTEN},
    }
    KEPT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _short(value: float | str) -> float | str:
    return value if isinstance(value, str) else float(f"{value:.13g}")
