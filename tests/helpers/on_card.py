"""Models on a graphics card beside the same ones in float64 on the CPU, which say what is right."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

DEVICE = torch.device(os.environ.get("NEXTWORD_GPU_TESTS_ON", "cuda"))
"""Where the tests of ``tests/gpu`` run. NEXTWORD_GPU_TESTS_ON=cpu tries the tests themselves, without a card."""

FLOAT32 = 2**11 * torch.finfo(torch.float32).eps
"""Relative error of gradients in float32, TF32 off: sums of up to 2**11 terms, each rounded once (2.4e-4)."""
BFLOAT16 = 2**4 * torch.finfo(torch.bfloat16).eps
"""The same in bfloat16, whose products add up in single precision: sixteen roundings one after another (0.125)."""
WORSE = 4.0
"""Where the CPU in the same precision is further off than that, the card may be this many times as far off."""


def missing() -> str:
    """Why the tests cannot run here; empty where they can."""
    if DEVICE.type != "cuda" or torch.cuda.is_available():
        return ""
    return "no CUDA card in this machine (torch.cuda.is_available() is False)"


def on_card(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inputs of a model, moved."""
    return {name: tensor.to(DEVICE) for name, tensor in given.items()}


def moved(model: Any, dtype: torch.dtype | None = None) -> Any:
    """A copy of a model on the card."""
    return copy.deepcopy(model).to(DEVICE, dtype)


def learned(model: Any, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The loss and the gradients of every weight, in float64 on the CPU."""
    model.zero_grad()
    loss = model(**given, use_cache=False).loss
    loss.backward()
    gradients = {name: weight.grad.to_dense() for name, weight in model.named_parameters() if weight.grad is not None}
    return {name: found.detach().double().cpu() for name, found in {"loss": loss, **gradients}.items()}


class Choices:
    """Which entries a computation took as the largest, and the same ones again in another computation.

    A reranker's candidates are the best by scores that are rounded: where two nearly tie, one rounding takes this and
    another that, and the gradients are those of another formula. So they are compared with the same ones taken.
    """

    def __init__(self) -> None:
        self._taken: list[Tensor] = []
        self._topk = Tensor.topk

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Every ``topk`` within the block is written down."""

        def topk(scores: Tensor, *arguments: Any, **more: Any) -> Any:
            found = self._topk(scores, *arguments, **more)
            self._taken.append(found.indices.cpu())
            return found

        with patch.object(Tensor, "topk", topk):
            yield

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Each ``topk`` within the block takes what the one of the same number took."""
        in_order = iter(self._taken)

        def topk(scores: Tensor, *_: Any, **__: Any) -> Any:
            indices = next(in_order).to(scores.device)
            return torch.return_types.topk((scores.gather(-1, indices), indices))

        with patch.object(Tensor, "topk", topk):
            yield
        assert next(in_order, None) is None, "one computation chose more often than the other"


def furthest(ours: dict[str, Tensor], right: dict[str, Tensor]) -> tuple[float, str]:
    """The largest relative error of loss and gradients, and whose it is.

    That of a gradient which is next to nothing beside all of them (a thousandth) is relative to that thousandth.
    """
    assert ours.keys() == right.keys(), sorted(ours.keys() ^ right.keys())
    every = torch.stack([one.norm() for name, one in right.items() if name != "loss"]).norm()
    errors = {
        name: float((ours[name] - one).norm() / max(one.norm(), 1e-3 * every if name != "loss" else one.norm()))
        for name, one in right.items()
    }
    name = max(errors, key=lambda name: (errors[name] != errors[name], errors[name]))
    return errors[name], name


def assert_as_in_float64(model: Any, given: dict[str, Tensor], dtype: torch.dtype) -> None:
    """Loss and gradients of a CPU model, moved to the card in a precision, are those of float64.

    What the CPU computes in that precision says how much rounding there is to forgive: a head with a list of the
    likeliest tokens has another list where two of them are rounded to one score.
    """
    rounded = copy.deepcopy(model).to(dtype)
    right = learned(copy.deepcopy(rounded).double(), given)
    allowed = FLOAT32 if dtype is torch.float32 else BFLOAT16
    cpu, _ = furthest(learned(rounded, given), right)
    card, whose = furthest(learned(moved(rounded), on_card(given)), right)
    assert card <= max(allowed, WORSE * cpu), f"{whose}: {card:.2g} off float64 (allowed {allowed:.2g}, CPU {cpu:.2g})"
