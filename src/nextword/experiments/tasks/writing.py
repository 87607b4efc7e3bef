"""What texts a task has every method write: the ways to write them, after which prompts, and how they are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int
from pydantic import Field, field_validator, model_validator

from nextword.evaluation.metrics.metric import parse_metric
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.settings.config import Seed, Settings


@dataclass(frozen=True)
class PromptedDecoding:
    """One way to write, and which of a task's prompts it starts from.

    >>> PromptedDecoding(Decoding(top_k=40), ", with prompt").title
    'top-k 40, with prompt'

    Attributes:
        prompts: Names the prompts, as the end of a title; empty where a task has prompts of one kind.
    """

    decoding: Decoding
    prompts: str = ""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return f"{self.decoding.title}{self.prompts}"

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are sampled."""
        return self.decoding.is_sampled


@dataclass(frozen=True)
class SeededDecoding:
    """One samples file: a way to write, and the seed of the tokens that are drawn."""

    way: PromptedDecoding
    seed: int


# -- What can be set of the texts that a task has every method write, and how they are measured.

METRICS = (
    "likelihood", "unigram-kl:test", "ms-jaccard:1,2,3", "self-bleu:1,2,3", "distinct:1,2,3", "rep", "uniq-seq",
    "frequency-groups",
)  # fmt: skip
"""The seven metrics of F2-Softmax, and how frequent the written tokens are (its figure 2)."""

WINS = ("perplexity", "kl-human-generated", "ms-jaccard-3", "self-bleu-3", "distinct-3", "rep", "uniq-seq")
"""The seven that vote in its table 9."""


@dataclass(frozen=True)
class Texts:
    """What texts every method writes for a task, and how they are measured.

    ``decodings`` are written a samples file each, and told apart by their titles; the rest is as in ``WritingConfig``.
    """

    decodings: tuple[PromptedDecoding, ...]
    metrics: tuple[str | dict[str, Any], ...]
    wins: tuple[str, ...] | None
    examples: int
    draws: tuple[int, ...] | None = None

    def draws_of(self, way: PromptedDecoding) -> tuple[int | None, ...]:
        """Seeds of the samples files that one model writes in this way; None: the seed that it was trained with."""
        return self.draws if self.draws is not None and way.is_sampled else (None,)


class WritingConfig(Settings):
    """How texts are written, and how they are measured."""

    batch_size: int = Field(default=32, ge=1)
    """Prompts continued at a time."""
    decodings: list[Decoding] = Field(default=[Decoding(), Decoding(top_k=3)], min_length=1)
    """Ways to write: "greedy", "top-k:K", "top-p:P", "sample" (these three also with a temperature: "top-k:3,0.7"),
    "beam:B", or settings in full: {top_k = 3, temperature = 0.7}."""
    draws: list[Seed] | None = Field(default=None, min_length=1)
    """Sampling seeds. Each trained model generates once per seed, into a samples file of its own, for instance
    [0, 1, 42]. None: once, with its training seed. Greedy and beam search run once."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later."""
    wins: list[str] | None = None
    """Keys that vote in the table of wins; None: one of each metric; may change later."""
    examples: int = Field(default=3, ge=0)
    """Texts shown in the report: those of the first prompts; may change later."""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for one in metrics:
            parse_metric(one)
        return metrics

    @model_validator(mode="after")
    def _told_apart(self) -> WritingConfig:
        titles = [decoding.title for decoding in self.decodings]
        twice = [title for number, title in enumerate(titles) if title in titles[:number]]
        if twice:
            raise ValueError(f"decodings: '{twice[0]}' is given twice")
        if self.draws is not None and len(set(self.draws)) < len(self.draws):
            raise ValueError(f"draws: must be different seeds ({', '.join(map(str, self.draws))} given)")
        return self

    def texts_after(self, *prompts: str) -> Texts:
        """What a comparison must know of it, where texts are written after prompts of these kinds."""
        ways = tuple(PromptedDecoding(decoding, kind) for decoding in self.decodings for kind in prompts)
        wins = None if self.wins is None else tuple(self.wins)
        draws = None if self.draws is None else tuple(self.draws)
        return Texts(ways, tuple(self.metrics), wins, self.examples, draws)


MAY_CHANGE = frozenset({"generation.metrics", "generation.wins", "generation.examples"})
"""Settings of a task that only say how written texts are measured."""


class ContinuationConfig(WritingConfig):
    """What is written after prompts from the test text, and how it is measured."""

    prompts: int = Field(default=0, ge=0)
    """Blocks of the test text, from its beginning, that give a prompt each; fewer where it has no more; 0: no texts."""
    prefix: int = Field(default=50, ge=1)
    """Tokens of a prompt: the first ones of its block."""
    continuation: int = Field(default=100, ge=1)
    """Tokens of a text: those of the rest of the block, and as many that a method writes in their place."""
    wins: list[str] | None = None
    """Keys that vote in the table of wins; None: F2-Softmax's seven with the metrics above, else one of each metric;
    may change later."""

    @property
    def block(self) -> int:
        """Tokens of a prompt and its text."""
        return self.prefix + self.continuation

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        if not self.prompts:
            return None
        texts = self.texts_after("")
        of_paper = self.wins is None and self.metrics == list(METRICS)
        return replace(texts, wins=WINS) if of_paper else texts


def block_prompts(ids: Sequence[int], text_bytes: Int[np.ndarray, "N"], config: ContinuationConfig) -> list[Prompt]:
    """The first blocks of a text, none overlapping another: the beginning of a block is a prompt, its rest the target.

    F2-Softmax, section 4.1.5, has 50 tokens of each block as prompt and 100 as target.

    Raises:
        ValueError: The text is shorter than one block.
    """
    prompts = []
    for number, begin in enumerate(range(0, len(ids) - config.block + 1, config.block)):
        if number == config.prompts:
            break
        cut, end = begin + config.prefix, begin + config.block
        prompts.append(Prompt(list(ids[begin:cut]), list(ids[cut:end]), int(text_bytes[cut:end].sum()), number))
    if not prompts:
        raise ValueError(
            f"task.generation: the test text has {len(ids)} tokens, no block of prefix + continuation = {config.block}"
        )
    return prompts
