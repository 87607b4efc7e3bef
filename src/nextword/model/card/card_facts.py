"""What a model card says beside what the model's configuration says: where the model comes from, and how good it is."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, JsonValue

from nextword.results.records import MetricValue, Record


class CardData(Record):
    """A text that the model was trained or measured on."""

    name: str
    """What readers call it, for example "WikiText-2" or a file's name."""
    hub_name: str | None = None
    """Its name on the Hub; None where it is not there."""
    note: str | None = None
    """How much of it and what for, for example "training, 2.1 million tokens"."""


class CardResult(Record):
    """One measured number."""

    metric: str
    """Its identifier, for example "perplexity"."""
    data: CardData
    """What it was measured on."""
    measured: MetricValue
    """The number with its unit, its interval and how many cases it comes from."""
    title: str | None = None
    """Its name for readers; None: the identifier."""
    split: str = "test"
    """Which part of the data."""


class CardFacts(Record):
    """All of it; what is not known is left out of the card."""

    title: str | None = None
    """The model's name; None: that of its folder."""
    base_model: str | None = None
    """Folder or hub name of the model that training began from; None: what the backbone's configuration says."""
    data: tuple[CardData, ...] = ()
    """What it was trained on."""
    language: tuple[str, ...] = ()
    """ISO 639-1 codes of the texts' languages, for example "en"."""
    license: str | None = None
    """As the Hub writes it, for example "apache-2.0"."""
    command: str | None = None
    """The command that made it."""
    settings: dict[str, JsonValue] = Field(default={})
    """Settings of its training."""
    results: tuple[CardResult, ...] = ()
    """What was measured."""
    checks: tuple[str, ...] = ()
    """What ``nextword check`` said, a line each."""


def hub_name(name: str | None) -> str | None:
    """A name as the Hub takes it; None for a folder and for what the Hub would refuse.

    >>> hub_name("openai-community/gpt2"), hub_name("../models/mine"), hub_name(None)
    ('openai-community/gpt2', None, None)
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    if not name or Path(name).exists():
        return None
    try:
        validate_repo_id(name)
    except HFValidationError:
        return None
    return name
