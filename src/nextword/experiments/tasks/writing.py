"""Settings of the texts that every method generates: decodings, prompts and metrics."""

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
    """A decoding, and the kind of prompts that it continues.

    >>> PromptedDecoding(Decoding(top_k=40), ", with prompt").title
    'top-k 40, with prompt'

    Attributes:
        prompts: Name of the kind of prompts, used in titles. Empty if a task has only one kind.
    """

    decoding: Decoding
    prompts: str = ""

    @property
    def title(self) -> str:
        """Name in tables: that of the decoding, followed by ``prompts``."""
        return f"{self.decoding.title}{self.prompts}"

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are sampled."""
        return self.decoding.is_sampled


@dataclass(frozen=True)
class SeededDecoding:
    """The decoding and the sampling seed with which one samples file is generated."""

    way: PromptedDecoding
    seed: int


# -- The settings of the texts that every method of a task generates, and of their metrics.

METRICS = (
    "likelihood", "unigram-kl:test", "ms-jaccard:1,2,3", "self-bleu:1,2,3", "distinct:1,2,3", "rep", "uniq-seq",
    "frequency-groups",
)  # fmt: skip
"""The seven metrics of F2-Softmax, and the frequency groups of the generated tokens (F2-Softmax, figure 2)."""

WINS = ("perplexity", "kl-human-generated", "ms-jaccard-3", "self-bleu-3", "distinct-3", "rep", "uniq-seq")
"""The seven values by which F2-Softmax's table 9 ranks systems."""


@dataclass(frozen=True)
class Texts:
    """Decodings and metrics of the texts that every method generates for a task.

    Each trained model generates with each of ``decodings``, whose titles must differ. The other attributes are those of
    ``WritingConfig``.
    """

    decodings: tuple[PromptedDecoding, ...]
    metrics: tuple[str | dict[str, Any], ...]
    wins: tuple[str, ...] | None
    examples: int
    draws: tuple[int, ...] | None = None

    def draws_of(self, way: PromptedDecoding) -> tuple[int | None, ...]:
        """Sampling seeds, one per samples file that a model generates with ``way``; None means the training seed."""
        return self.draws if self.draws is not None and way.is_sampled else (None,)


class WritingConfig(Settings):
    """Settings of text generation, and of the metrics of the generated texts."""

    batch_size: int = Field(default=32, ge=1)
    """Batch size of the generation, in prompts."""
    decodings: list[Decoding] = Field(default=[Decoding(), Decoding(top_k=3)], min_length=1)
    """Decodings: "greedy", "beam:B", "top-k:K", "top-p:P", "sample" (the last three also with a temperature:
    "top-k:3,0.7"), or a table of arguments: {top_k = 3, temperature = 0.7}."""
    draws: list[Seed] | None = Field(default=None, min_length=1)
    """Sampling seeds, for instance [0, 1, 42]. Each trained model generates one samples file per seed. None: one file,
    with the model's training seed. Greedy and beam search run once."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the generated texts, as in nextword evaluate. They may be changed after the comparison has
    finished."""
    wins: list[str] | None = None
    """Keys of the values by which methods are ranked; none: one per metric. They may be changed after the comparison
    has finished."""
    examples: int = Field(default=3, ge=0)
    """Number of prompts whose texts the report shows. It may be changed after the comparison has finished."""

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
            raise ValueError(f"decodings: must be different ('{twice[0]}' given twice); remove one")
        if self.draws is not None and len(set(self.draws)) < len(self.draws):
            raise ValueError(f"draws: must be different seeds ({', '.join(map(str, self.draws))} given)")
        return self

    def texts_after(self, *prompts: str) -> Texts:
        """The ``Texts`` of a comparison. Each decoding is used with each of ``prompts``, names of kinds of prompts."""
        ways = tuple(PromptedDecoding(decoding, kind) for decoding in self.decodings for kind in prompts)
        wins = None if self.wins is None else tuple(self.wins)
        draws = None if self.draws is None else tuple(self.draws)
        return Texts(ways, tuple(self.metrics), wins, self.examples, draws)


MAY_CHANGE = frozenset({"generation.metrics", "generation.wins", "generation.examples"})
"""Settings of a task that only affect the metrics of generated texts."""


class ContinuationConfig(WritingConfig):
    """Settings for generating continuations of prompts from the test text, and for the metrics of these texts."""

    prompts: int = Field(default=0, ge=0)
    """Maximum number of prompts, one per block of the test text, from the first block; 0: generate no texts."""
    prefix: int = Field(default=50, ge=1)
    """Tokens per prompt, from the start of its block."""
    continuation: int = Field(default=100, ge=1)
    """Tokens per text. The human reference is the rest of the prompt's block, which has the same number of tokens."""
    wins: list[str] | None = None
    """Keys of the values by which methods are ranked; none: the seven of F2-Softmax if its metrics are used, otherwise
    one per metric. They may be changed after the comparison has finished."""

    @property
    def block(self) -> int:
        """Number of tokens of a prompt and its continuation together."""
        return self.prefix + self.continuation

    def texts(self) -> Texts | None:
        """Decodings and metrics of the continuations; ``None`` if ``prompts`` is 0, so that none are generated."""
        if not self.prompts:
            return None
        texts = self.texts_after("")
        of_paper = self.wins is None and self.metrics == list(METRICS)
        return replace(texts, wins=WINS) if of_paper else texts


def block_prompts(ids: Sequence[int], text_bytes: Int[np.ndarray, "N"], config: ContinuationConfig) -> list[Prompt]:
    """Cuts a text into blocks without overlap, and makes a prompt of each of the first ``config.prompts`` blocks.

    ``ids`` are the text's tokens, and ``text_bytes`` the UTF-8 bytes of each token. The first ``config.prefix`` tokens
    of a block are the prompt, the others the target. F2-Softmax (section 4.1.5) uses 50 and 100 tokens.

    Raises:
        ValueError: If the text is shorter than one block.
    """
    prompts = []
    for number, begin in enumerate(range(0, len(ids) - config.block + 1, config.block)):
        if number == config.prompts:
            break
        cut, end = begin + config.prefix, begin + config.block
        prompts.append(Prompt(list(ids[begin:cut]), list(ids[cut:end]), int(text_bytes[cut:end].sum()), number))
    if not prompts:
        raise ValueError(
            f"task.generation: the test text must have at least prefix + continuation = {config.block} tokens "
            f"({len(ids)} given); give more text or smaller settings"
        )
    return prompts
