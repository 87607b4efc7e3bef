"""The base class of objectives, the loss that they return, their modifiers, sequence updates and specs."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, distributed, nn

from nextword.distribution import KnownScores, NextToken
from nextword.heads import Dimensions
from nextword.heads.context import Context
from nextword.heads.head import Head
from nextword.settings.config import Seed, Settings
from nextword.settings.registry import Registry
from nextword.settings.specs import Grammar, Modifier, ModifierEntry, Modifiers, SpecSettings


@dataclass(frozen=True)
class Loss:
    """A loss before division: a sum over tokens, and the number of these tokens.

    The trainer adds up the losses of all accumulation steps and processes, then divides once by the number of all
    tokens. ``total`` is in nats; ``parts`` are terms of the loss for the log, each a mean per token, without gradient.
    """

    total: Float[Tensor, ""]
    tokens: int
    parts: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, total: Float[Tensor, ""], tokens: int, **sums: Float[Tensor, ""]) -> Loss:
        """Creates a loss; each of ``sums``, a sum over the same tokens, becomes a mean per token in ``parts``."""
        return cls(total, tokens, {name: (part / max(tokens, 1)).detach() for name, part in sums.items()})


# -- Sums over all processes of distributed training.


def summed_over_processes(values: Tensor) -> Tensor:
    """Returns the sum of ``values`` over all processes, or ``values`` itself if there is only one process.

    All processes must call it in the same order, as with every all-reduce.

    >>> summed_over_processes(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    total = values.clone()
    distributed.all_reduce(total)
    return total


def on_every_process(here: bool, device: torch.device) -> bool:
    """Returns whether ``here`` is true on every process; for decisions that must be the same on all processes.

    >>> on_every_process(True, torch.device("cpu"))
    True
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return here
    return not int(summed_over_processes(torch.tensor(int(not here), device=device)))


# -- The modifiers of objectives: names that may follow a ``+`` in an objective spec.

modifiers = Modifiers()
"""All modifiers by name. Each sets one field of an objective's config; an objective accepts the modifiers whose fields
its config has."""


# -- Sequence updates (``+seq``): the model continues prefixes, and the loss lowers the probability of repeated n-grams.


class SequenceConfig(Settings):
    """Settings of sequence updates: how many there are, and what the model generates in them."""

    rate: float = Field(default=0.5, gt=0, le=1)
    """Share of the updates that are sequence updates (published: 0.5); the others are token updates."""
    prefix: int = Field(default=50, ge=1, le=1_000_000)
    """Number of tokens in a prefix; a shorter row is one prefix. An encoder-decoder model continues the whole source,
    whatever its length."""
    continuation: int = Field(default=100, ge=1, le=100_000)
    """Number of tokens generated after each prefix, greedily and without stopping at the end token."""
    n: int = Field(default=4, ge=1, le=1000)
    """Length, in tokens, of the n-grams whose repetition is penalised."""
    prefixes: int | None = Field(default=None, ge=1, le=10_000)
    """Number of consecutive prefixes cut from each row; None: one for every ``prefix + continuation`` tokens of the
    row, but at least one."""
    seed: Seed = 0
    """Seed of the random choice between sequence and token updates."""


@modifiers.register("seq")
class SequenceModifier(Modifier):
    """The modifier ``+seq`` (``+seq:0.5``, ``+seq:50x100``, ``+seq:0.5,50x100``), which adds sequence updates."""

    field: ClassVar[str] = "seq"
    usage: ClassVar[str] = "+seq, +seq:RATE, +seq:PREFIXxCONTINUATION or +seq:RATE,PREFIXxCONTINUATION"
    entries: ClassVar[tuple[ModifierEntry, ...]] = (
        ModifierEntry(
            "+seq:rate",
            "Sequence-level unlikelihood: this share of the updates penalises n-grams that the model repeats.",
            "unlikelihood+seq:0.25",
            "unlikelihood",
        ),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> dict[str, Any]:
        """Parses arguments such as ``["0.5", "50x100"]`` into settings."""
        lengths = re.fullmatch(r"(\d+)x(\d+)", arguments[-1]) if arguments else None
        rates = arguments[:-1] if lengths else arguments
        if len(rates) > 1 or not all(re.fullmatch(r"\d*\.?\d+(e-\d+)?", rate) for rate in rates):
            raise ValueError(f"must be {SequenceModifier.usage} ('+{name}:{','.join(arguments)}' given)")
        found: dict[str, Any] = {"rate": float(rates[0])} if rates else {}
        return found | ({"prefix": int(lengths[1]), "continuation": int(lengths[2])} if lengths else {})

    @staticmethod
    def write(value: SequenceConfig | None) -> tuple[str, list[str]] | None:
        """Returns the modifier's name and arguments, such as ``("seq", ["0.25"])``; None if ``value`` is None."""
        if value is None:
            return None
        usual = SequenceConfig()
        rate = [] if value.rate == usual.rate else [repr(value.rate).removesuffix(".0")]
        lengths = (value.prefix, value.continuation)
        return "seq", rate + ([] if lengths == (usual.prefix, usual.continuation) else ["{}x{}".format(*lengths)])


@dataclass(frozen=True)
class Written:
    """R generated continuations. ``repeated`` marks tokens of n-grams that occurred earlier in the continuation."""

    tokens: Int[Tensor, "R S"]
    repeated: Bool[Tensor, "R S"]

    @property
    def asked(self) -> Bool[Tensor, "R S"]:
        """Mask of the tokens whose probability is needed: the repeated tokens, or one token if nothing is repeated."""
        # this token has weight 0 but gives every parameter a gradient, which distributed training waits for
        first = torch.zeros_like(self.repeated)
        first[:1, :1] = True
        return torch.where(self.repeated.any(), self.repeated, first)


class SequenceUpdates(nn.Module):
    """Decides which training updates are sequence updates, and computes the loss of sequence updates.

    In a sequence update, the model continues prefixes, and the loss penalises n-grams that it repeats.

    Formula, over all S tokens of all R continuations, with p the head's own distribution::

        L_seq = 1 / (R S) sum_{tokens in a repeated n-gram} -log(1 - p(token))

    An n-gram is repeated if it occurred earlier in the same continuation; the prefix is not searched. All n tokens of
    its second and later occurrences are penalised.

    Source: Welleck et al. 2020, sequence-level unlikelihood.

    Differs from the published code: the last n-gram of a continuation counts too; gradients do not vanish if p rounds
    to 1.
    """

    step: Int[Tensor, ""]

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def reset_parameters(self) -> None:
        """Sets the number of counted updates to zero."""
        self.step.zero_()

    def advance(self) -> bool:
        """Counts an update, and returns whether it is a sequence update.

        The choice depends only on the seed and the number of the update, so it is the same on all processes and in a
        resumed training. With gradient accumulation, each micro-batch has its own choice.
        """
        number = int(self.step)
        self.step += 1
        return random.Random(f"{self.config.seed} {number}").random() < self.config.rate

    def written(self, tokens: Int[Tensor, "R S"]) -> Written:
        """Returns the continuations with a mask of their repeated tokens."""
        return Written(tokens, repeated_ngrams(tokens, self.config.n))

    def forward(self, head: Head, context: Context, written: Written, targets: int) -> Loss:
        """Returns ``L_seq`` of the continuations, times ``targets``, the number of targets of the micro-batch.

        The trainer divides every loss by the number of targets of all micro-batches and processes of an optimiser step.
        The factor ``targets`` gives a sequence update the same weight as a token update. ``context`` has the positions
        that predict the tokens in ``written.asked``.
        """
        asked = written.asked
        complement = head(context).log_complement(written.tokens[asked][:, None])[:, 0]
        punished = -(complement * written.repeated[asked]).sum()
        mean = punished / max(written.tokens.numel(), 1)
        marked = written.repeated.to(mean.dtype).mean()
        return Loss(mean * targets, targets, {"sequence_loss": mean.detach(), "repeated": marked})


def repeated_ngrams(tokens: Int[Tensor, "R S"], n: int) -> Bool[Tensor, "R S"]:
    """Returns a mask of the tokens that are in an n-gram which occurred earlier in the same row.

    >>> repeated_ngrams(torch.tensor([[5, 6, 9, 5, 6, 5, 6]]), 2).int()
    tensor([[0, 0, 0, 1, 1, 1, 1]], dtype=torch.int32)
    """
    rows, length = tokens.shape
    if rows == 0 or length < n:
        return torch.zeros_like(tokens, dtype=torch.bool)
    ngrams = tokens.unfold(1, n, 1)
    row = torch.arange(rows, device=tokens.device)[:, None, None].expand(-1, ngrams.shape[1], 1)
    _, group = torch.unique(torch.cat([row, ngrams], -1).flatten(0, 1), dim=0, return_inverse=True)
    position = torch.arange(len(group), device=tokens.device)
    first = torch.full_like(position, len(position)).scatter_reduce(0, group, position, "amin")
    again = (position > first[group]).view(rows, -1)
    covered = [nn.functional.pad(again, (offset, n - 1 - offset)) for offset in range(n)]
    return torch.stack(covered).any(0)


# -- The base class of objectives.


class ObjectiveConfig(SpecSettings):
    """Settings of every objective."""

    objective: str
    """Registered name of the objective."""
    seq: SequenceConfig | None = None
    """Settings of sequence updates, which replace some updates (``+seq``); None: no sequence updates."""


class Objective(nn.Module, ABC):
    """Base class of objectives, which compute a loss from the probability that a head gives to the targets.

    A subclass is in one file with its ``Config`` and is registered with ``@registry.register("name")``. Store counters
    as buffers, so that they are saved and moved with the model, and define ``reset_parameters``, which clears them; it
    is called if a checkpoint has no counters. Weight tokens or add terms to the likelihood only if ``self.training`` is
    true, so that the evaluation losses of different objectives can be compared.

    A loss must not depend on padding. The loss of a batch must be the sum of the losses of its rows, or
    ``couples_rows`` must return why not. ``tests/conformance/test_objectives.py`` tests both for every registered
    objective.
    """

    Config: ClassVar[type[ObjectiveConfig]]

    def __init__(self, config: ObjectiveConfig, dimensions: Dimensions) -> None:
        super().__init__()
        self.config: Any = config
        self.dimensions = dimensions
        self.sequence = None if config.seq is None else SequenceUpdates(config.seq)
        """Replaces the batch and the loss of some updates by those of a sequence update; None: of no update."""

    def check(self, head: Head) -> None:
        """Raises ValueError, with the reason, if this objective cannot be used with ``head``."""

    @property
    def couples_rows(self) -> str:
        """The reason why the loss of a batch is not the sum of the losses of its rows; empty if it is this sum."""
        return ""

    def resize_vocabulary(self, size: int) -> None:
        """Called when tokens are added at the end of the vocabulary, or removed there; ``size`` is its new size."""

    @abstractmethod
    def forward(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """Returns the loss of ``targets``, which has one token for each position of the context."""


registry: Registry[type[Objective]] = Registry("objective", Objective)
"""All objectives by name."""


# -- A head with known logits: an objective receives it if the forward pass returns logits too.


def with_known_logits(head: Head, context: Context, logits: Float[Tensor, "*rows V"], row: Int[Tensor, "N"]) -> Head:
    """Returns a copy of ``head`` whose distribution at ``context`` is the softmax of the known ``logits``.

    For other contexts or modes the copy computes its distribution as usual. If ``logits`` have a gradient, ``head``
    itself is returned, because the loss computes gradients in chunks with less memory.

    Args:
        head: The head, which is not changed.
        context: The context at which the objective calls the head.
        logits: The head's logits at all positions of the forward pass, in its configured mode.
        row: Indices of the context's positions among all positions of the pass.
    """
    if logits.requires_grad:
        return head
    known, set_to = KnownScores(logits.flatten(0, -2), row), getattr(head.config, "mode", "joint")

    def forward(other: Context, mode: str | None = None) -> NextToken:
        return known if other is context and mode in (None, set_to) else head.forward(other, mode=mode)

    asked: Any = copy(head)
    asked.forward = forward
    return asked  # type: ignore[no-any-return]


# -- Parsing and writing objective specs such as ``mle``, ``face:opr,cp`` and ``unlikelihood+seq:0.5``.

grammar = Grammar(registry, ObjectiveConfig, "mle", modifiers)


def parse_objective(spec: str | Mapping[str, Any] | ObjectiveConfig) -> ObjectiveConfig:
    """Returns the config of an objective spec or a dictionary of settings; a config is returned unchanged.

    >>> parse_objective("mle+seq:0.25").seq.rate
    0.25
    >>> parse_objective("mle+sec")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: objective spec 'mle+sec': unknown modifier 'sec'. Did you mean 'seq'? Known: +seq, +seq:RATE, ...

    Raises:
        ValueError: If a name or a key is unknown, or a value is invalid.
    """
    return grammar.parse(spec)


def objective_spec(config: ObjectiveConfig) -> str:
    """Returns the shortest spec from which ``parse_objective`` returns ``config``.

    >>> objective_spec(parse_objective("Face:OPR+seq:0.5,25x50"))
    'face:opr+seq:25x50'
    """
    return grammar.write(config)
