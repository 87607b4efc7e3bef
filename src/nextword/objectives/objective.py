"""The contract of an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.distribution import KnownScores, NextToken
from nextword.heads import Dimensions
from nextword.heads.context import Context
from nextword.heads.head import Head
from nextword.objectives.loss import Loss, modifiers
from nextword.objectives.sequence_level_unlikelihood import SequenceConfig, SequenceUpdates
from nextword.settings.registry import Registry
from nextword.settings.specs import Grammar, SpecSettings


class ObjectiveConfig(SpecSettings):
    """Settings that every objective has."""

    objective: str
    """Registered name of the objective."""
    seq: SequenceConfig | None = None
    """Sequence updates in place of some of the updates with this objective (``+seq``); None: none."""


class Objective(nn.Module, ABC):
    """Asks a head's distribution for the probability of the targets and makes a loss of it.

    A concrete objective is final, stands in one file of ``nextword/objectives`` with its ``Config``, and is found
    through ``@registry.register("name")``. What it counts is a buffer with a ``reset_parameters`` that empties it: it
    lies in the model's checkpoint, moves with the model and is empty where a checkpoint has none. An objective that
    reweights or adds terms does so where ``self.training`` is set, so that losses of evaluation can be compared.

    No loss depends on padding. The loss of a batch is the sum of what its rows give alone, or ``couples_rows`` says why
    not; ``tests/conformance/test_objectives.py`` holds every registered objective to both.
    """

    Config: ClassVar[type[ObjectiveConfig]]

    def __init__(self, config: ObjectiveConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.config: Any = config
        self.dimensions = dimensions
        self.sequence = None if config.seq is None else SequenceUpdates(config.seq)
        """What replaces some updates, batch and loss; the model asks it before its backbone runs."""

    def check(self, head: Head) -> None:
        """Raises ValueError, with the reason, where this objective makes no sense with ``head``."""

    @property
    def couples_rows(self) -> str:
        """Why the loss of a batch is not the sum of what its rows give alone; empty where it is."""
        return ""

    def resize_vocabulary(self, size: int) -> None:
        """Called where the model gets tokens, or loses its last ones."""

    @abstractmethod
    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """The loss of ``targets``, one at each position of the context."""


registry: Registry[type[Objective]] = Registry("objective", Objective)
"""All objectives by name."""


# -- A head that was asked already: what an objective is given where a pass returns logits too.


def with_known_logits(head: Head, context: Context, logits: Float[Tensor, "*rows V"], row: Int[Tensor, "N"]) -> Head:
    """``head`` itself, but at this very context its distribution is read off ``logits``: nothing is computed twice.

    Elsewhere, or in another of its modes, it answers as ever; so it does where logits have a gradient, which a loss
    makes chunk by chunk in less memory. It is of the same class, so that an objective finds whatever else it has.

    Args:
        head: The head, which is not changed.
        context: Where the loss asks it.
        logits: What it answered at all positions of the pass, in the mode that it is set to.
        row: Which of these positions are those of the context.
    """
    if logits.requires_grad:
        return head
    known, set_to = KnownScores(logits.flatten(0, -2), row), getattr(head.config, "mode", "joint")

    def forward(other: Context, mode: str | None = None) -> NextToken:
        return known if other is context and mode in (None, set_to) else head.forward(other, mode=mode)

    asked: Any = copy(head)
    asked.forward = forward
    return asked  # type: ignore[no-any-return]


# -- Objective specs: ``mle``, ``face:opr,cp``, ``unlikelihood+seq:0.5``, to a typed config and back.

grammar = Grammar(registry, ObjectiveConfig, "mle", modifiers)


def parse_objective(spec: str | Mapping[str, Any] | ObjectiveConfig) -> ObjectiveConfig:
    """The typed config of an objective spec, of a config written out in full, or of a config as it is.

    >>> parse_objective("mle+seq:0.25").seq.rate
    0.25
    >>> parse_objective("mle+sec")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: objective spec 'mle+sec': unknown modifier 'sec'. Did you mean 'seq'? Known: +seq, +seq:RATE, ...

    Raises:
        ValueError: Unknown name, unknown key or arguments that do not fit.
    """
    return grammar.parse(spec)


def objective_spec(config: ObjectiveConfig) -> str:
    """The shortest spec that this config comes back from.

    >>> objective_spec(parse_objective("Face:OPR+seq:0.5,25x50"))
    'face:opr+seq:25x50'
    """
    return grammar.write(config)
