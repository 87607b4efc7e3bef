"""What a datastore says of itself: which model, tokenizer and data it was made from, and which shards it has."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from nextword.runtime.files import Record

MANIFEST, BEGUN, PROBE = "store.json", "begun.json", "probe.npy"
"""The last file that is written, the first one, and the states by which a model is known again."""


class StoreOrigin(Record):
    """What decides about every number in a store; two builds into one folder must agree on it."""

    format: Literal["nextword-datastore/1"] = "nextword-datastore/1"
    """Name and version of the format; a reader refuses others."""
    model: str
    """Name of the model."""
    model_fingerprint: str | None
    """Of its weights; None where they were in float16, or not all in memory."""
    tokenizer: str
    """Fingerprint of its tokenizer."""
    data: str
    """Which files or data set, with their sizes and dates."""
    width: int
    """Of a key."""
    vocab_size: int
    """Tokens of the model."""
    precision: Literal["float16", "int8"]
    """Of the keys."""
    start: int
    """The token before every document."""
    window: int
    """Tokens that the model saw at once."""
    stride: int
    """Tokens that each window after the first gave."""
    shard_keys: int
    """Keys of a shard; the last one may have fewer."""


class ShardFacts(Record):
    """One shard; written when its other files are there."""

    number: int
    """Its place among them, from 0."""
    keys: int
    """How many it has."""


class StoreManifest(Record):
    """A finished store."""

    nextword: str
    """Version that wrote it."""
    origin: StoreOrigin
    """What every number in it depends on."""
    documents: int
    """Documents of the data, empty ones among them."""
    empty_documents: int
    """Those that have no token."""
    shards: list[int]
    """Keys of each shard, in order."""
    probe: list[int]
    """Tokens whose states are in the probe."""


def manifest_of(folder: Path) -> StoreManifest:
    """The manifest of a finished store.

    Raises:
        ValueError: There is none; says whether a build was begun.
    """
    if not (folder / MANIFEST).is_file():
        begun = (folder / BEGUN).is_file()
        raise ValueError(
            f"store: must be a finished datastore ('{folder}' "
            + ("was begun and not finished); run the same 'nextword datastore build' again" if begun else "given); ")
            + ("" if begun else "make one with 'nextword datastore build MODEL DATA --out FOLDER'")
        )
    return StoreManifest.load(folder / MANIFEST)
