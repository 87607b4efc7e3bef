"""Objectives: what one returns, its modifiers and sequence updates, its contract, and its specs."""

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
    """A loss before division: a sum over tokens and how many they are.

    The division is done once, over all accumulation steps and processes, never as a mean of means. The sum is in nats;
    ``parts`` are detached terms for the log, each a mean.
    """

    total: Float[Tensor, ""]
    tokens: int
    parts: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, total: Float[Tensor, ""], tokens: int, **sums: Float[Tensor, ""]) -> Loss:
        """With parts given as sums over the same tokens."""
        return cls(total, tokens, {name: (part / max(tokens, 1)).detach() for name, part in sums.items()})


# -- Sums over all processes of a distributed training.


def summed_over_processes(values: Tensor) -> Tensor:
    """The sum of every process's ``values``; the values themselves where there is one process.

    All processes have to ask in the same order, as for gradients.

    >>> summed_over_processes(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    total = values.clone()
    distributed.all_reduce(total)
    return total


def on_every_process(here: bool, device: torch.device) -> bool:
    """Whether ``here`` is true on all of them; for choices that every process has to make alike.

    >>> on_every_process(True, torch.device("cpu"))
    True
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return here
    return not int(summed_over_processes(torch.tensor(int(not here), device=device)))


# -- The modifiers of objectives: what a ``+`` in an objective spec may be followed by.

modifiers = Modifiers()
"""All by name. Each fills a field of an objective's config, and an objective takes those whose fields it has."""


# -- Sequence updates: the model continues prefixes, and n-grams that it repeats are made unlikely (``+seq``).


class SequenceConfig(Settings):
    """Which updates are sequence updates, and what the model writes in them."""

    rate: float = Field(default=0.5, gt=0, le=1)
    """Share of the updates that are sequence updates (published: 0.5); each is either that or a token update."""
    prefix: int = Field(default=50, ge=1, le=1_000_000)
    """Tokens of a prefix; a row that is shorter is a prefix as a whole. An encoder-decoder model continues its source,
    whatever its length."""
    continuation: int = Field(default=100, ge=1, le=100_000)
    """Tokens that the model writes after each prefix, greedily and without stopping at the end token."""
    n: int = Field(default=4, ge=1, le=1000)
    """Tokens of an n-gram."""
    prefixes: int | None = Field(default=None, ge=1, le=10_000)
    """Prefixes cut from each row, one behind the other; None: one for every ``prefix + continuation`` tokens of the
    row, at least one."""
    seed: Seed = 0
    """Seed of the choice between sequence and token update."""


@modifiers.register("seq")
class SequenceModifier(Modifier):
    """``+seq``, ``+seq:0.5``, ``+seq:50x100``, ``+seq:0.5,50x100``."""

    field: ClassVar[str] = "seq"
    usage: ClassVar[str] = "+seq, +seq:RATE, +seq:PREFIXxCONTINUATION or +seq:RATE,PREFIXxCONTINUATION"
    entries: ClassVar[tuple[ModifierEntry, ...]] = (
        ModifierEntry(
            "+seq:rate",
            "Sequence-level unlikelihood: this share of the updates punishes n-grams that the model repeats.",
            "unlikelihood+seq:0.25",
            "unlikelihood",
        ),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> dict[str, Any]:
        """``["0.5", "50x100"]`` as settings."""
        lengths = re.fullmatch(r"(\d+)x(\d+)", arguments[-1]) if arguments else None
        rates = arguments[:-1] if lengths else arguments
        if len(rates) > 1 or not all(re.fullmatch(r"\d*\.?\d+(e-\d+)?", rate) for rate in rates):
            raise ValueError(f"must be {SequenceModifier.usage} ('+{name}:{','.join(arguments)}' given)")
        found: dict[str, Any] = {"rate": float(rates[0])} if rates else {}
        return found | ({"prefix": int(lengths[1]), "continuation": int(lengths[2])} if lengths else {})

    @staticmethod
    def write(value: SequenceConfig | None) -> tuple[str, list[str]] | None:
        """Settings as ``("seq", ["0.25"])``."""
        if value is None:
            return None
        usual = SequenceConfig()
        rate = [] if value.rate == usual.rate else [repr(value.rate).removesuffix(".0")]
        lengths = (value.prefix, value.continuation)
        return "seq", rate + ([] if lengths == (usual.prefix, usual.continuation) else ["{}x{}".format(*lengths)])


@dataclass(frozen=True)
class Written:
    """What the model wrote after R prefixes; repeated are tokens in an n-gram that stood earlier in it."""

    tokens: Int[Tensor, "R S"]
    repeated: Bool[Tensor, "R S"]

    @property
    def asked(self) -> Bool[Tensor, "R S"]:
        """Tokens whose probability is needed: the repeated ones, or one where there is none."""
        # that one counts nothing, but gives every parameter a gradient, which distributed training waits for
        first = torch.zeros_like(self.repeated)
        first[:1, :1] = True
        return torch.where(self.repeated.any(), self.repeated, first)


class SequenceUpdates(nn.Module):
    """Decides which updates are sequence updates, and makes their loss.

    Formula, over all S tokens of all R continuations, with p the head's own distribution::

        L_seq = 1 / (R S) sum_{tokens in a repeated n-gram} -log(1 - p(token))

    An n-gram is repeated where it stood earlier in the same continuation: at its second and later occurrences all of
    its n tokens are punished. The prefix is not searched.

    Source: Welleck et al. 2020, sequence-level unlikelihood.

    Differs from the published code: the last n-gram of a continuation is looked at too; gradients do not vanish where
    p rounds to 1.
    """

    step: Int[Tensor, ""]

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def reset_parameters(self) -> None:
        """Back to the first update."""
        self.step.zero_()

    def advance(self) -> bool:
        """Counts an update, and says whether it is a sequence update.

        The draw depends on the seed and the number of the update only: it is the same on all processes, and after a
        resume that of the uninterrupted training. In gradient accumulation every micro-batch is drawn for itself.
        """
        number = int(self.step)
        self.step += 1
        return random.Random(f"{self.config.seed} {number}").random() < self.config.rate

    def written(self, tokens: Int[Tensor, "R S"]) -> Written:
        """Continuations, with what they repeat."""
        return Written(tokens, repeated_ngrams(tokens, self.config.n))

    def forward(self, head: Head, context: Context, written: Written, targets: int) -> Loss:
        """The loss of continuations, weighted so that it stands for the targets of the batch they were made from.

        A token update's sum is divided by the targets of all micro-batches and processes of an optimiser step. A mean
        over a continuation is in no such sum, so it counts once for every target that its micro-batch would have had.
        The context is at the positions of ``written.asked``.
        """
        asked = written.asked
        complement = head(context).log_complement(written.tokens[asked][:, None])[:, 0]
        punished = -(complement * written.repeated[asked]).sum()
        mean = punished / max(written.tokens.numel(), 1)
        marked = written.repeated.to(mean.dtype).mean()
        return Loss(mean * targets, targets, {"sequence_loss": mean.detach(), "repeated": marked})


def repeated_ngrams(tokens: Int[Tensor, "R S"], n: int) -> Bool[Tensor, "R S"]:
    """Tokens that lie in an n-gram that stood earlier in the same row.

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


# -- The contract of an objective.


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
