"""What a model said about every token of a text: the record behind ``nw.trace`` and ``nextword inspect``.

Columns, not rows: ``tokens.log_prob[i]`` is about the token ``texts["text"].ids[first + i]``.
"""

from __future__ import annotations

import math
import os
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, PlainSerializer

from nextword.runtime.files import Record, write_atomically

TRACE_FORMAT = "nextword-trace/1"
"""Name and version of the format; a reader refuses others."""

Role = Literal["text", "source", "auxiliary", "store"]
"""Which text: the decoder's own, what the encoder of an encoder-decoder model reads, what a conditioner brings in, or
excerpts of a datastore around the tokens that were retrieved."""


LogProb = Annotated[
    float,
    BeforeValidator(lambda value: -math.inf if value is None else value),
    PlainSerializer(lambda value: None if value == -math.inf else value, return_type=float | None, when_used="json"),
]
"""Natural log of a probability. That of zero is ``-inf``, which JSON does not have: there it is ``null``."""


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
    """Token ids, positions x K; fewer where fewer tokens have any probability."""
    log_prob: list[list[LogProb]]
    """Natural logs of their probabilities."""
    shares: dict[str, list[list[float]]]
    """By component, the part of each one's probability that came from it; the parts of a token add up to 1."""


class StrongestPositions(Record):
    """Where the probability of the observed token came from: the strongest positions of each position."""

    at: list[list[int]]
    """Indices into the text that the component points at, strongest first; none where the token stands nowhere."""
    share: list[list[float]]
    """The part of the token's probability that came from each of them."""


class TracedTokens(Record):
    """Columns with one entry for each predicted token."""

    log_prob: list[LogProb]
    """Natural log of the observed token's probability; ``null`` in JSON, ``-inf`` in Python, where it is zero."""
    rank: list[int]
    """Its position among all tokens by probability, from 1."""
    entropy: list[float]
    """Entropy of the whole distribution, in nats."""
    shares: dict[str, list[float]]
    """By component, the part of the observed token's probability that came from it. They add up to 1, or are all 0
    where it is zero."""
    candidates: Candidates
    """The most probable tokens."""
    positions: dict[str, StrongestPositions] = Field(
        default={}, validation_alias=AliasChoices("positions", "places")
    )  # the old name
    """By component that points at positions; components that point at none are absent."""


class TracedDraft(Record):
    """Draft tokens, verified in one pass of the model while it generated the text."""

    begin: int = Field(ge=0)
    """Index in ``texts["text"]`` of the first of them."""
    ids: list[int]
    """The draft tokens."""
    accepted: int = Field(ge=0)
    """How many of them, from the first on, are what the model wrote."""


class TraceRecord(Record):
    """A whole trace, one file of JSON."""

    format: Literal["nextword-trace/1"] = "nextword-trace/1"
    """Name and version of this format."""
    nextword: str
    """Version that wrote it."""
    model: TracedModel
    """Which model was asked."""
    texts: dict[Role, TracedText]
    """What it read: always ``text``, perhaps ``source``, ``auxiliary`` or ``store``. Auxiliary texts and excerpts of a
    store are in the decoder's tokens."""
    positions_in: dict[str, Role] = Field(default={}, validation_alias=AliasChoices("positions_in", "places_in"))
    """Which of the texts the positions of a component are of."""
    first: int = Field(ge=0)
    """Index in ``texts["text"]`` of the first predicted token; what stands before was read only."""
    window: int | None = None
    """Tokens that the model saw at once, where the text is longer; None: it saw all that stands before each token."""
    vocabulary: dict[int, str]
    """How each token that occurs anywhere in the trace is shown, by id: ``␣king`` begins a word."""
    tokens: TracedTokens
    """What was said of each predicted token."""
    drafts: list[TracedDraft] = Field(default=[])
    """The drafts, where the model wrote the text with ``draft``, in order."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON on one line, [atomically][nextword.results.records.write_atomically].

        Raises:
            DiskFullError: There is no room for it.
        """
        write_atomically(path, self.model_dump_json() + "\n")
