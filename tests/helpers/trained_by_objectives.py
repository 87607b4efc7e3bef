"""Objectives, and batches for them, made of plain tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextword.heads import Dimensions, Head
from nextword.objectives import Objective, parse_objective, registry
from tests.helpers.contexts import LinearVocabulary, build_head, decoder_context

HEADS = ("softmax", "mos:2", "cache", "softmax+r:3")


def build_objective(spec: Any, vocab_size: int = 9, *, training: bool = True) -> Objective:
    """An objective for a model of this vocabulary."""
    config = parse_objective(spec)
    dimensions = Dimensions(hidden=5, layer=5, layers=3, vocab_size=vocab_size)
    return registry.get(config.objective)(config, dimensions).train(training)


class Batch:
    """Random states with targets: a left-padded row, masked targets and repeated tokens."""

    def __init__(self, spec: str = "softmax", *, seed: int = 0, scale: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.vocab_size, width, shape = 9, 5, (3, 8)
        self.states = (scale * torch.randn(*shape, width, generator=generator, dtype=torch.float64)).requires_grad_()
        self.weight = torch.randn(self.vocab_size, width, generator=generator, dtype=torch.float64).requires_grad_()
        self.ids = torch.randint(0, 5, shape, generator=generator)
        self.mask = torch.ones(shape, dtype=torch.bool)
        self.mask[1, :3] = False
        self.targets = torch.randint(0, 5, shape, generator=generator).masked_fill(~self.mask, -100)
        self.targets[0, 2:4] = -100
        torch.manual_seed(seed)
        self.head: Head = build_head(spec, width, self.vocab_size)

    def context(self, counted: Tensor) -> Any:
        """What the head is given at these positions."""
        vocabulary = LinearVocabulary(self.weight)
        return decoder_context(self.head, self.states, self.ids, vocabulary, mask=self.mask, counted=counted)

    def log_probs(self) -> Tensor:
        """The head's whole distribution everywhere, (B, T, V)."""
        everywhere = torch.ones_like(self.mask)
        return self.head(self.context(everywhere)).log_probs().unflatten(0, self.mask.shape)

    def loss(self, objective: Objective) -> Any:
        """Our loss of the targets."""
        counted = self.targets != -100
        return objective(self.head, self.context(counted), self.targets[counted])

    def gradients(self, total: Tensor) -> list[Tensor]:
        """Of the states, the output embedding and all parameters of the head."""
        leaves = [self.states, self.weight, *self.head.parameters()]
        found = torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
        return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves, strict=True)]
