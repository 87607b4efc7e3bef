"""How likely given texts are to several models: the record behind ``nw.score`` and ``nextword score``."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, JsonValue

from nextword.results.records.measured_values import Environment, MetricValue
from nextword.runtime.files import Record, VersionedRecord


class GroupScore(Record):
    """The tokens of one group of a breakdown."""

    group: str
    """Its name, for example "in the text before"."""
    tokens: int = Field(ge=1)
    """How many tokens are in it."""
    nats: float | None
    """Their summed negative log-likelihood; None where one of them has probability 0."""
    share_of_nats: float | None
    """Sum of the nats of all tokens; None where any token has probability 0."""
    nll: float | None
    """Nats per token; None where one of them has probability 0."""
    low: float | None = None
    """Lower end of the 95 % bootstrap interval of ``nll``; None where none could be drawn."""
    high: float | None = None
    """Upper end."""
    impossible: int = Field(default=0, ge=0)
    """Tokens of probability 0."""

    @property
    def perplexity(self) -> float:
        """``exp(nll)``; inf where a token has probability 0 or it is too large for a number."""
        return perplexity(self.nll)


class BreakdownMeaning(Record):
    """By what tokens are told apart."""

    title: str
    """Heading, for example "New and repeated tokens"."""
    meaning: str
    """Which token is in which group."""


class ModelScore(Record):
    """What one model said of the texts."""

    name: str
    """What tables call it."""
    location: str = ""
    """Folder or hub name that it was loaded from; empty where it was made in Python."""
    head: str
    """Head spec; "softmax" for a model that is not one of ours."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: it has none."""
    backbone: str
    """Class of the model that the head is attached to."""
    parameters: int = Field(ge=0)
    """All weights, shared ones once."""
    reads: list[str]
    """Fields of the data that it read besides the text: "prompt", "source", "auxiliary"."""
    window: int | None
    """Tokens it saw at once at most; None: each target as a whole, after its source."""
    stride: int | None
    """New tokens scored by each window after the first."""
    tokens: int = Field(ge=1)
    """Scored tokens, in tokens of this model."""
    impossible: int = Field(default=0, ge=0)
    """Tokens of probability 0."""
    cut_sources: int = Field(default=0, ge=0)
    """Sources that are longer than the encoder can read and were cut."""
    values: dict[str, MetricValue]
    """"perplexity", "nll" and "bits_per_byte"."""
    undefined: dict[str, str] = Field(default={})
    """Values that are not finite, with the reason."""
    breakdowns: dict[str, list[GroupScore]] = Field(default={})
    """By key of ``ScoreResults.breakdowns``, its groups that have tokens."""

    @property
    def perplexity(self) -> float:
        """Per token of this model; inf where a token has probability 0 or it is too large for a number."""
        return self._value("perplexity")

    @property
    def nll(self) -> float:
        """Nats per token of this model."""
        return self._value("nll")

    @property
    def bits_per_byte(self) -> float:
        """Bits per UTF-8 byte of the text, which models of different tokenizers can be compared by."""
        return self._value("bits_per_byte")

    def _value(self, key: str) -> float:
        return self.values[key].value if key in self.values else math.inf


class ScoreDifference(Record):
    """What one model said less what another said, on the same texts; the other was named before it."""

    first: str
    """A model."""
    second: str
    """One before it."""
    measure: Literal["nll", "bits_per_byte"]
    """Nats per token where both have the same tokens, else bits per byte."""
    breakdown: str | None = None
    """Key of a breakdown; None: all tokens."""
    group: str | None = None
    """Group of it."""
    difference: float
    """Value of the first less that of the second; negative: the first is better."""
    low: float | None
    """Lower end of its 95 % paired bootstrap interval; None where none could be drawn."""
    high: float | None
    """Upper end."""
    p_permutation: float | None = Field(ge=0, le=1)
    """Two-sided paired permutation test, not corrected; None where none could be made."""
    p_holm: float | None = Field(ge=0, le=1)
    """The same, corrected for the number of pairs, or of groups and pairs (Holm)."""


class ScoreResults(VersionedRecord):
    """How likely texts are to one model or several: the content of score.json."""

    kind: Literal["score"] = "score"
    """What sort of run this is."""
    command: str
    """The command that makes these results again; empty where they were made in Python."""
    data: list[str]
    """Where the texts are from."""
    fields: dict[str, str] = Field(default={})
    """Columns of tables that were read for a field, where they were named."""
    texts: int = Field(ge=1)
    """How many were scored, each by itself."""
    bytes: int = Field(ge=1)
    """UTF-8 bytes of them."""
    empty: int = Field(default=0, ge=0)
    """Texts without anything in them, which were left out."""
    unit: str
    """What intervals and tests draw anew: "texts", or "pieces of 1,024 bytes"."""
    units: int = Field(ge=1)
    """How many there are."""
    models: list[ModelScore] = Field(min_length=1)
    """In the order given."""
    same_tokens: bool
    """Whether all models have the same tokens, so that numbers per token can be compared."""
    breakdowns: dict[str, BreakdownMeaning]
    """What the groups are, by key, in reading order."""
    differences: list[ScoreDifference] = Field(default=[])
    """Paired differences, every two models: all tokens first, then by group."""
    settings: dict[str, JsonValue]
    """Window, stride and everything else in full."""
    environment: Environment
    """Where and when."""

    def __str__(self) -> str:
        """A line for each model, and one for each difference between two over all tokens."""
        over_all = [one for one in self.differences if one.group is None]
        return "\n".join([*map(_in_words, self.models), *map(_difference_in_words, over_all)])

    @property
    def perplexity(self) -> float:
        """Perplexity of the only model.

        Raises:
            ValueError: There are several; ask ``result["NAME"]``.
        """
        return self._only.perplexity

    @property
    def nll(self) -> float:
        """Nats per token of the only model; raises as ``perplexity``."""
        return self._only.nll

    @property
    def bits_per_byte(self) -> float:
        """Value of the only model; raises as ``perplexity``."""
        return self._only.bits_per_byte

    def __getitem__(self, name: str) -> ModelScore:
        """What the model of that name said."""
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(name)

    @property
    def _only(self) -> ModelScore:
        if len(self.models) > 1:
            names = ", ".join(model.name for model in self.models)
            raise ValueError(f"result: must name one of several models, {names}; write result['{self.models[0].name}']")
        return self.models[0]


def perplexity(nll: float | None) -> float:
    """``exp(nll)``; inf for None and where it is too large for a number.

    >>> perplexity(0.0), perplexity(None), perplexity(1e6)
    (1.0, inf, inf)
    """
    try:
        return math.inf if nll is None else math.exp(nll)
    except OverflowError:
        return math.inf


def _in_words(model: ModelScore) -> str:
    """Its values with their intervals, in the names that they have as attributes; what has no value says why."""
    said = [
        f"{key} {one.value:.4g}" + (" ({:.4g} to {:.4g})".format(*one.interval) if one.interval else "")
        for key, one in model.values.items()
    ]
    return f"{model.name}: {', '.join([*said, *(f'{key} {why}' for key, why in model.undefined.items())])}"


def _difference_in_words(one: ScoreDifference) -> str:
    interval = "" if one.low is None or one.high is None else f" ({one.low:+.3g} to {one.high:+.3g})"
    p = "" if one.p_holm is None else f", p = {one.p_holm:.2g}"
    return f"{one.first} - {one.second}: {one.measure} {one.difference:+.3g}{interval}{p}"
