"""Training steps to compare: transformers' own, ours, other libraries' losses, and the backbone alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from interleaved import seconds_of
from peak_memory import peak_bytes
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Step:
    """One forward and backward pass, to be timed or weighed.

    Args:
        model: Whose weights get gradients.
        run: Makes the pass.
    """

    model: Any
    run: Callable[[], object]

    @property
    def _device(self) -> str:
        return str(self.model.device)

    def seconds(self) -> float:
        """Time of one pass with gradients made anew, as after ``zero_grad()``."""
        taken = seconds_of(self.run, self._device)
        self.model.zero_grad(set_to_none=True)
        return taken

    def peak(self) -> int:
        """Peak bytes above the model with its gradients, which are there before the pass begins.

        A model that was never run should be run first: what it makes once and keeps would count.
        """
        for weight in self.model.parameters():
            weight.grad = torch.zeros_like(weight)
        found = peak_bytes(self.run, self._device)
        self.model.zero_grad(set_to_none=True)
        return found


Inputs = dict[str, Tensor]


def language_model(model: Any, inputs: Inputs, **settings: Any) -> Step:
    """A model that computes its own loss from labels."""
    return Step(model, lambda: model(**inputs, **settings).loss.backward())


def backbone_alone(bare: Any, inputs: Inputs, **settings: Any) -> Step:
    """Up to the last hidden state and back, without any head or loss."""

    def run() -> None:
        states = last_states(bare, inputs, **settings)
        torch.autograd.backward(states, torch.ones_like(states))

    return Step(bare, run)


def last_states(bare: Any, inputs: Inputs, **settings: Any) -> Tensor:
    """The last hidden states (B, T, D) of the decoder."""
    given = {name: tensor for name, tensor in inputs.items() if name != "labels"}
    if bare.config.is_encoder_decoder:
        given["decoder_input_ids"] = bare.prepare_decoder_input_ids_from_labels(inputs["labels"])
        encoded = bare.encoder(given["input_ids"]).last_hidden_state
        out = bare.decoder(given["decoder_input_ids"], encoder_hidden_states=encoded, **settings)
    else:
        out = bare.base_model(**given, **settings)
    states: Tensor = out.last_hidden_state
    return states


LinearLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Loss of states (N, D), output weights (V, D) and targets (N)."""


def with_loss(bare: Any, inputs: Inputs, loss: LinearLoss) -> Step:
    """A decoder-only backbone under a loss that somebody else computes from its states."""

    def run() -> None:
        states = last_states(bare, inputs, use_cache=False)[:, :-1].flatten(0, 1)
        targets = inputs["labels"][:, 1:].flatten()
        torch.autograd.backward(loss(states, bare.get_output_embeddings().weight, targets))

    return Step(bare, run)


def linear_losses(device: str) -> tuple[dict[str, LinearLoss], dict[str, str]]:
    """What others have for plain softmax: losses by name, and why some are missing."""
    found: dict[str, LinearLoss] = {}
    missing: dict[str, str] = {}
    options = getattr(torch.nn, "LinearCrossEntropyOptions", None)
    if options is None:
        missing["linear_cross_entropy"] = f"torch {torch.__version__} has none"
    else:
        linear: Any = F.linear_cross_entropy
        found["torch linear_cross_entropy"] = linear
        found["torch linear_cross_entropy, chunked"] = partial(linear, options=options())
        found["torch linear_cross_entropy, chunked, compact"] = partial(linear, options=options(acc_policy="compact"))
    for name, package, made in (
        ("Liger-Kernel", "liger_kernel.transformers", _liger),
        ("cut-cross-entropy", "cut_cross_entropy", _cut),
    ):
        if not device.startswith("cuda"):
            missing[name] = "needs a GPU"
            continue
        try:
            found[name] = made(importlib.import_module(package))
        except ImportError as fault:
            missing[name] = f"not installed ({fault})"
    return found, missing


def _liger(module: Any) -> LinearLoss:
    loss = module.LigerFusedLinearCrossEntropyLoss()
    return lambda states, weight, targets: loss(weight, states, targets)


def _cut(module: Any) -> LinearLoss:
    return lambda states, weight, targets: module.linear_cross_entropy(states, weight, targets)
