"""What ``save_pretrained`` writes for every head and conditioner: the settings as text, the tensors as digests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.helpers.conditioned_models import CONDITIONERS, conditioned
from tests.helpers.families import tiny
from tests.helpers.golden.digests import digest, or_refusal, seeded
from tests.helpers.golden.normalised import plain, records
from tests.helpers.golden.passes import HEADS, OBJECTIVES
from tests.helpers.head_specs import ONE_OF_EACH_KIND, with_head


def jobs() -> Iterator[tuple[str, Any]]:
    """Name of each file with what makes its content."""
    for family in (*ONE_OF_EACH_KIND, "llama"):
        for head in HEADS:
            yield f"models/{family}/{head}", partial(saved_with_head, family, head)
    for conditioner in CONDITIONERS:
        yield f"models/conditioned/{conditioner}", partial(saved_with_conditioner, conditioner)
    for objective in OBJECTIVES:
        yield f"models/objectives/{objective}", partial(saved_with_objective, objective)


def saved_with_head(family: str, head: str) -> dict[str, Any]:
    return {"folder": or_refusal(lambda: contents(with_head(family, HEADS[head])))}


def saved_with_objective(objective: str) -> dict[str, Any]:
    return {
        head: or_refusal(lambda head=head: contents(with_head("gpt2", HEADS[head], objective=OBJECTIVES[objective])))
        for head in HEADS
    }


def saved_with_conditioner(conditioner: str) -> dict[str, Any]:
    found = {}
    for head in ("softmax", "cache", "pg"):
        seeded()
        found[head] = or_refusal(
            lambda head=head: contents(conditioned(tiny("gpt2"), HEADS[head], CONDITIONERS[conditioner]))
        )
    return found


def contents(model: torch.nn.Module) -> dict[str, Any]:
    """Every file of the saved model."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"  # the model card is titled so
        model.save_pretrained(folder)  # type: ignore[operator]
        return {str(path.relative_to(folder)): _content(path) for path in sorted(folder.rglob("*.*"))}


def _content(path: Path) -> Any:
    if path.suffix == ".safetensors":
        return {name: digest(tensor) for name, tensor in sorted(load_file(path).items())}
    text = path.read_text(encoding="utf-8")
    return records(text) if path.suffix == ".json" else plain(text)
