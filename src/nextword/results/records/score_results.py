"""Records of ``nw.score`` and ``nextword score``: likelihoods of texts under several models."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, JsonValue

from nextword.results.records.measured_values import Environment, MetricValue
from nextword.runtime.files import Record, VersionedRecord


class GroupScore(Record):
    """The score of one group of tokens, such as the repeated tokens."""

    group: str
    """Name of the group, for example "in the text before"."""
    tokens: int = Field(ge=1)
    """Number of tokens."""
    nats: float | None
    """Sum of the negative log-likelihoods of the group's tokens; None if one of them has probability 0."""
    share_of_nats: float | None
    """``nats`` of the group divided by the nats of all tokens of the texts; None if any of these has probability 0."""
    nll: float | None
    """``nats`` divided by ``tokens``; None if a token of the group has probability 0."""
    low: float | None = None
    """Lower end of the 95 % bootstrap interval of ``nll``; None if it cannot be computed."""
    high: float | None = None
    """Upper end of this interval."""
    impossible: int = Field(default=0, ge=0)
    """Number of tokens with probability 0."""

    @property
    def perplexity(self) -> float:
        """``exp(nll)``; inf if a token of the group has probability 0 or the value is too large for a float."""
        return perplexity(self.nll)


class BreakdownMeaning(Record):
    """Description of a breakdown of tokens into groups."""

    title: str
    """Heading, for example "New and repeated tokens"."""
    meaning: str
    """Explanation of the groups."""


class ModelScore(Record):
    """Scores of one model."""

    name: str
    """Name in tables."""
    location: str = ""
    """Folder or hub name of the model; empty if the model was made in Python."""
    head: str
    """Head spec; "softmax" for a model without our head."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: no conditioner."""
    backbone: str
    """Class of the backbone."""
    parameters: int = Field(ge=0)
    """Number of parameters. Shared parameters count once."""
    reads: list[str]
    """Fields of the data that the model read in addition to the text: "prompt", "source", "auxiliary"."""
    window: int | None
    """Maximum number of tokens per window. None for an encoder-decoder model, which scores each target as a whole."""
    stride: int | None
    """Number of new tokens that each window after the first scores; None if ``window`` is None."""
    tokens: int = Field(ge=1)
    """Number of scored tokens, by the model's tokenizer."""
    impossible: int = Field(default=0, ge=0)
    """Number of tokens with probability 0."""
    cut_sources: int = Field(default=0, ge=0)
    """Number of sources that were truncated to the encoder's maximum length."""
    values: dict[str, MetricValue]
    """The values "perplexity", "nll" and "bits_per_byte" that are finite."""
    undefined: dict[str, str] = Field(default={})
    """The other of these values, each with the reason why it is not finite."""
    breakdowns: dict[str, list[GroupScore]] = Field(default={})
    """Scores of the groups that contain tokens, by key of ``ScoreResults.breakdowns``."""

    @property
    def perplexity(self) -> float:
        """The model's perplexity per token; inf if a token has probability 0 or the value is too large for a float."""
        return self._value("perplexity")

    @property
    def nll(self) -> float:
        """Nats per token; inf if a token has probability 0."""
        return self._value("nll")

    @property
    def bits_per_byte(self) -> float:
        """Bits per UTF-8 byte of the texts, inf if a token has probability 0; comparable between tokenizers."""
        return self._value("bits_per_byte")

    def _value(self, key: str) -> float:
        return self.values[key].value if key in self.values else math.inf


class ScoreDifference(Record):
    """Difference between two models' scores of the same texts."""

    first: str
    """Name of one model."""
    second: str
    """Name of the other model, which comes before ``first`` in ``ScoreResults.models``."""
    measure: Literal["nll", "bits_per_byte"]
    """Compared value: nats per token if both models have the same tokens, otherwise bits per byte."""
    breakdown: str | None = None
    """Key of the breakdown to which ``group`` belongs; None: the difference is over all tokens."""
    group: str | None = None
    """Group of tokens over which the difference is computed; None: all tokens."""
    difference: float
    """Value of ``first`` minus value of ``second``. If the difference is negative, ``first`` is better."""
    low: float | None
    """Lower end of the 95 % paired bootstrap interval of the difference; None if it cannot be computed."""
    high: float | None
    """Upper end of this interval."""
    p_permutation: float | None = Field(ge=0, le=1)
    """p-value of the two-sided paired permutation test, uncorrected; None if there was no test."""
    p_holm: float | None = Field(ge=0, le=1)
    """``p_permutation`` after Holm's correction for the number of tests, either over all tokens or of groups."""


class ScoreResults(VersionedRecord):
    """Likelihoods of texts under one or several models: the content of score.json."""

    kind: Literal["score"] = "score"
    """Kind of record."""
    command: str
    """Command that reproduces these results; empty if the results were made in Python."""
    data: list[str]
    """Sources of the texts."""
    fields: dict[str, str] = Field(default={})
    """Names of the columns that the user chose, by what they contain ("text", "prompt", "source" or "auxiliary")."""
    texts: int = Field(ge=1)
    """Number of texts. Each is scored separately."""
    bytes: int = Field(ge=1)
    """Number of UTF-8 bytes of the texts."""
    empty: int = Field(default=0, ge=0)
    """Number of empty texts, which were left out."""
    unit: str
    """Resampling unit of intervals and tests: "texts", or "pieces of 1,024 bytes"."""
    units: int = Field(ge=1)
    """Number of resampling units."""
    models: list[ModelScore] = Field(min_length=1)
    """Models in the given order."""
    same_tokens: bool
    """Whether all models split the texts into the same tokens, so that values per token are comparable."""
    breakdowns: dict[str, BreakdownMeaning]
    """Descriptions of the breakdowns by key, in the order of the report."""
    differences: list[ScoreDifference] = Field(default=[])
    """Paired differences between all pairs of models: first over all tokens, then by group. Pairs and groups with a
    token of probability 0 are left out."""
    settings: dict[str, JsonValue]
    """All settings, such as window and stride."""
    environment: Environment
    """Environment and time."""

    def __str__(self) -> str:
        """One line per model, and one line per difference between two models."""
        over_all = [one for one in self.differences if one.group is None]
        return "\n".join([*map(_in_words, self.models), *map(_difference_in_words, over_all)])

    @property
    def perplexity(self) -> float:
        """Perplexity of the only model.

        Raises:
            ValueError: If there are several models; use ``result["NAME"]``.
        """
        return self._only.perplexity

    @property
    def nll(self) -> float:
        """Nats per token of the only model. Raises ValueError if there are several models."""
        return self._only.nll

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of the only model. Raises ValueError if there are several models."""
        return self._only.bits_per_byte

    def __getitem__(self, name: str) -> ModelScore:
        """Return the scores of the model with this name."""
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
    """``exp(nll)``; inf if ``nll`` is None or the value is too large for a float.

    >>> perplexity(0.0), perplexity(None), perplexity(1e6)
    (1.0, inf, inf)
    """
    try:
        return math.inf if nll is None else math.exp(nll)
    except OverflowError:
        return math.inf


def _in_words(model: ModelScore) -> str:
    """The values with intervals, or the reason why there is no value, by the names of the attributes."""
    said = [
        f"{key} {one.value:.4g}" + (" ({:.4g} to {:.4g})".format(*one.interval) if one.interval else "")
        for key, one in model.values.items()
    ]
    return f"{model.name}: {', '.join([*said, *(f'{key} {why}' for key, why in model.undefined.items())])}"


def _difference_in_words(one: ScoreDifference) -> str:
    interval = "" if one.low is None or one.high is None else f" ({one.low:+.3g} to {one.high:+.3g})"
    p = "" if one.p_holm is None else f", p = {one.p_holm:.2g}"
    return f"{one.first} - {one.second}: {one.measure} {one.difference:+.3g}{interval}{p}"
