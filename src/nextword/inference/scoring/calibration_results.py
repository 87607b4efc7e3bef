"""Settings of a head that were chosen on a text: the record behind ``nw.calibrate`` and ``nextword attach --held``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from nextword.runtime.files import Record


class TriedSetting(Record):
    """One point of the curve."""

    settings: dict[str, JsonValue]
    """The settings."""
    nll: float
    """Nats per token under them."""


class CalibrationResults(Record):
    """What was chosen, and what it is worth on the text that it was chosen on."""

    kind: Literal["calibration"] = "calibration"
    """What the file is."""
    model: str
    """What tables call the model."""
    head: str
    """Spec of its head before."""
    data: list[str] = Field(default=[])
    """The texts, for a report."""
    tokens: int = Field(ge=1)
    """Tokens that were read."""
    impossible: int = Field(default=0, ge=0)
    """How many of them have probability 0 without the head's part or with it; they count nowhere."""
    passes: int = Field(default=1, ge=1)
    """How often the model read each of them."""
    settings: dict[str, JsonValue]
    """What was chosen: ``best``, or where that does not help, settings under which the head adds nothing."""
    best: dict[str, JsonValue]
    """The settings under which the text is most likely."""
    nll: float
    """Nats per token with what was chosen."""
    nll_without: float
    """Nats per token of the distribution that the head adds to, such as the softmax."""
    gain: float
    """Nats per token that ``best`` takes from ``nll_without``."""
    low: float | None
    """Lower end of the 95 % interval of the gain, a paired bootstrap over blocks; None: there are too few tokens."""
    high: float | None
    """Upper end."""
    block: int = Field(ge=1)
    """Tokens of a block at most: neighbours in one text, which are alike."""
    helps: bool
    """Whether the gain's interval is above 0."""
    seconds: float = Field(ge=0)
    """Time of the pass and of the choice."""
    curve: list[TriedSetting]
    """Settings that were tried."""
