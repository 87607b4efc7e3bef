"""What a model said about every token of a text: the record behind ``nw.trace`` and ``nextword inspect``.

Columns, not rows: ``tokens.log_prob[i]`` is about the token ``texts["text"].ids[first + i]``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nextword.records.files import Record

TRACE_FORMAT = "nextword-trace/1"
"""Name and version of the format; a reader refuses others."""

Role = Literal["text", "source", "auxiliary"]
"""Which text: the decoder's own, what the encoder of an encoder-decoder model reads, what a conditioner brings in."""


class TracedModel(Record):
    """Which model was asked."""

    name: str
    """What tables call it."""
    head: str
    """Head spec."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: it has none."""
    backbone: str
    """Class of the model that the head is attached to."""
    parameters: int
    """All weights, shared ones once."""


class TracedText(Record):
    """One text as tokens."""

    ids: list[int]
    """Token ids, special ones included."""
    pieces: list[str]
    """What each token adds to the text, empty where it adds nothing (a special token, or a later part of a character).
    Joined they are the text."""


class Candidates(Record):
    """The most probable tokens at each position, in decreasing order: K a position."""

    ids: list[list[int]]
    """Token ids, positions x K."""
    log_prob: list[list[float]]
    """Natural logs of their probabilities."""
    shares: dict[str, list[list[float]]]
    """By component, the part of each one's probability that came from it; the parts of a token add up to 1."""


class Places(Record):
    """Where the probability of the observed token came from: the strongest places of each position."""

    at: list[list[int]]
    """Indices into the text that the component points at, strongest first; none where the token stands nowhere."""
    share: list[list[float]]
    """The part of the token's probability that came from each of them."""


class TracedTokens(Record):
    """Columns with one entry for each predicted token."""

    log_prob: list[float]
    """Natural log of the observed token's probability."""
    rank: list[int]
    """Its place among all tokens by probability, from 1."""
    entropy: list[float]
    """Of the whole distribution, in nats."""
    shares: dict[str, list[float]]
    """By component, the part of the observed token's probability that came from it; they add up to 1."""
    candidates: Candidates
    """The most probable tokens."""
    places: dict[str, Places] = Field(default={})
    """By component that points at places; components that point at none are absent."""


class TraceRecord(Record):
    """A whole trace, one file of JSON."""

    format: Literal["nextword-trace/1"] = "nextword-trace/1"
    """Name and version of this format."""
    nextword: str
    """Version that wrote it."""
    model: TracedModel
    """Which model was asked."""
    texts: dict[Role, TracedText]
    """What it read: always ``text``, perhaps ``source`` or ``auxiliary``. Auxiliary texts are in the decoder's
    tokens."""
    places_in: dict[str, Role] = Field(default={})
    """Which of the texts the places of a component are of."""
    first: int = Field(ge=0)
    """Index in ``texts["text"]`` of the first predicted token; what stands before was read only."""
    vocabulary: dict[int, str]
    """How each token that occurs anywhere in the trace is shown, by id: ``␣king`` begins a word."""
    tokens: TracedTokens
    """What was said of each predicted token."""
