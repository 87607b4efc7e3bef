"""How a text is written from a model's next-token distributions: greedily, sampled, or by beam search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from nextword.evaluation.metrics.metric import parse_metric
from nextword.settings.config import Seed, Settings
from nextword.settings.registry import did_you_mean
from nextword.settings.specs import read_term


class Decoding(Settings):
    """One way to write. Text is the short form, with a temperature as the last argument of those that sample.

    >>> Decoding.model_validate("top-k:3").title, Decoding.model_validate("sample:0.7").title
    ('top-k 3', 'sample, temperature 0.7')
    >>> Decoding.model_validate("beam:4"), Decoding().title
    (Decoding(sample=False, top_k=None, top_p=None, temperature=1.0, beams=4), 'greedy')
    """

    sample: bool = False
    """Draw from the whole distribution."""
    top_k: int | None = Field(default=None, ge=1)
    """Draw from so many most probable tokens."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Draw from the most probable tokens that make up this share."""
    temperature: float = Field(default=1.0, gt=0)
    """Log-probabilities are divided by it before a token is sampled."""
    beams: int = Field(default=1, ge=1, le=1000)
    """Beams of a search without chance; 1 is greedy."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return _read(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.beams > 1 and self.is_sampled:
            raise ValueError("beams are searched without chance: give beams, or sample, top_k or top_p")
        if self.temperature != 1 and not self.is_sampled:
            raise ValueError("a temperature changes nothing without sampling: give sample, top_k or top_p too")
        return self

    @property
    def is_sampled(self) -> bool:
        """Whether tokens are sampled, so that another seed writes another text."""
        return self.sample or self.top_k is not None or self.top_p is not None

    @property
    def title(self) -> str:
        """What a table calls it."""
        parts = [f"top-k {self.top_k}"] if self.top_k is not None else []
        parts += [f"top-p {self.top_p:g}"] if self.top_p is not None else []
        parts = parts or (["sample"] if self.is_sampled else [f"beam {self.beams}" if self.beams > 1 else "greedy"])
        return ", ".join([*parts, *([f"temperature {self.temperature:g}"] if self.temperature != 1 else [])])

    def arguments(self) -> dict[str, Any]:
        """The same as arguments of transformers' ``generate``, with nothing left to its defaults."""
        if not self.is_sampled:
            return {"do_sample": False, "num_beams": self.beams}
        return {
            "do_sample": True,
            "num_beams": 1,
            "top_k": self.top_k or 0,
            "top_p": 1.0 if self.top_p is None else self.top_p,
            "temperature": self.temperature,
        }


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


def _temperature(value: str | None = None) -> dict[str, float]:
    return {} if value is None else {"temperature": float(value)}


_SHORT: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "greedy": ("greedy", lambda: {}),
    "sample": ("sample[:TEMPERATURE]", lambda *temperature: {"sample": True, **_temperature(*temperature)}),
    "top-k": ("top-k:K[,TEMPERATURE]", lambda k, *temperature: {"top_k": int(k), **_temperature(*temperature)}),
    "top-p": ("top-p:P[,TEMPERATURE]", lambda p, *temperature: {"top_p": float(p), **_temperature(*temperature)}),
    "beam": ("beam:BEAMS", lambda beams: {"beams": int(beams)}),
}
"""How each short form is written, and the settings that its arguments are."""


def _read(text: str) -> dict[str, Any]:
    name, arguments = read_term(text.lower())
    forms = ", ".join(usage for usage, _ in _SHORT.values())
    if name not in _SHORT:
        raise ValueError(f"'{text}' is not a decoding.{did_you_mean(name, _SHORT)} Known: {forms}.")
    usage, read = _SHORT[name]
    try:
        return read(*arguments)
    except (TypeError, ValueError):  # too few or too many; no numbers
        raise ValueError(f"'{text}' cannot be read as {usage}") from None


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
    """Seeds with which every trained model draws its tokens, a samples file each, for instance [0, 1, 42]; None: once,
    with the seed that it was trained with. What draws nothing ("greedy", "beam:B") is written once."""
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
    def _told_apart(self) -> Self:
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
"""Settings that only say how written texts are measured, as settings of a task."""


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
