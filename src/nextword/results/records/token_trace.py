"""Record of a trace: a model's prediction of every token of a text (``nw.trace`` and ``nextword inspect``).

Values are stored in columns: ``tokens.log_prob[i]`` is about predicted token i, ``texts["text"].ids[first + i]``.
"""

from __future__ import annotations

import math
import os
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, PlainSerializer

from nextword.runtime.files import Record, write_atomically

TRACE_FORMAT = "nextword-trace/1"
"""Name and version of the format. Readers reject other versions."""

Role = Literal["text", "source", "auxiliary", "store"]
"""Kind of text: the text of the decoder, the source of an encoder-decoder model, the auxiliary text of a conditioner,
or excerpts of a datastore around the retrieved tokens."""


LogProb = Annotated[
    float,
    BeforeValidator(lambda value: -math.inf if value is None else value),
    PlainSerializer(lambda value: None if value == -math.inf else value, return_type=float | None, when_used="json"),
]
"""Natural logarithm of a probability. For probability 0 it is ``-inf``, which JSON stores as ``null``."""


class TracedModel(Record):
    """The traced model."""

    name: str
    """Name in tables."""
    head: str
    """Head spec."""
    objective: str
    """Objective spec."""
    conditioner: str | None = None
    """Conditioner spec; None: no conditioner."""
    backbone: str
    """Class of the backbone."""
    parameters: int
    """Number of parameters. Shared parameters count once."""


class TracedText(Record):
    """A tokenized text."""

    ids: list[int]
    """Token ids, including special tokens."""
    pieces: list[str]
    """Text of each token. Empty for a special token or a later byte of a character. Joined, the pieces are the text."""


class Candidates(Record):
    """The K most probable tokens at each position, in decreasing order."""

    ids: list[list[int]]
    """Token ids, one list of K per position. A list is shorter if fewer than K tokens have a probability above 0."""
    log_prob: list[list[LogProb]]
    """Natural logarithms of the probabilities of ``ids``."""
    shares: dict[str, list[list[float]]]
    """For each component, its share of each token's probability. The shares of a token sum to 1."""


class StrongestPositions(Record):
    """For one component of the head, such as a cache: the positions that add most to each token's probability."""

    at: list[list[int]]
    """For each predicted token: indices into the text that ``positions_in`` names for the component, largest share
    first. Empty if no position contributes to the token's probability."""
    share: list[list[float]]
    """For each index in ``at``: the share of the token's probability that comes from this position."""


class TracedTokens(Record):
    """Columns with one entry for each predicted token."""

    log_prob: list[LogProb]
    """Natural logarithm of the observed token's probability. For probability 0: ``-inf``, in JSON ``null``."""
    rank: list[int]
    """Rank of the observed token by probability, from 1."""
    entropy: list[float]
    """Entropy of the distribution, in nats."""
    shares: dict[str, list[float]]
    """For each component, its share of the observed token's probability. The shares sum to 1, or are all 0 if the
    probability is 0."""
    candidates: Candidates
    """The most probable tokens."""
    positions: dict[str, StrongestPositions] = Field(
        default={}, validation_alias=AliasChoices("positions", "places")
    )  # the old name
    """For each component that points at positions: the positions with the largest shares of the observed token's
    probability."""


class TracedDraft(Record):
    """Draft tokens that were verified in one forward pass during generation."""

    begin: int = Field(ge=0)
    """Index in ``texts["text"]`` of the first draft token."""
    ids: list[int]
    """The draft tokens."""
    accepted: int = Field(ge=0)
    """Number of draft tokens that were accepted; these are the first ones."""


class TraceRecord(Record):
    """A trace: the content of one JSON file."""

    format: Literal["nextword-trace/1"] = "nextword-trace/1"
    """Name and version of this format."""
    nextword: str
    """Version of nextword that wrote the file."""
    model: TracedModel
    """The traced model."""
    texts: dict[Role, TracedText]
    """Texts by kind: always ``text``, optionally ``source``, ``auxiliary`` or ``store``. The ids of ``auxiliary`` and
    ``store`` are from the decoder's tokenizer."""
    positions_in: dict[str, Role] = Field(default={}, validation_alias=AliasChoices("positions_in", "places_in"))
    """For each component that points at positions, the text (a key of ``texts``) that these positions are in."""
    first: int = Field(ge=0)
    """Index in ``texts["text"]`` of the first predicted token. The tokens before it are context."""
    window: int | None = None
    """Number of tokens per window if the text was cut into windows. None: every token was predicted from all earlier
    tokens."""
    vocabulary: dict[int, str]
    """Label of each token id in the trace, such as ``␣king`` for a token that begins a word."""
    tokens: TracedTokens
    """Values of each predicted token."""
    drafts: list[TracedDraft] = Field(default=[])
    """Drafts of speculative decoding in order, if the text was generated with ``draft``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON on one line, [atomically][nextword.results.records.write_atomically].

        Raises:
            DiskFullError: If the disk is full.
        """
        write_atomically(path, self.model_dump_json() + "\n")
