"""A tiny model on the disk, data to store, and its datastore."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import nextword as nw
from nextword.inference.datastore import BuildSettings, build_datastore
from tests.helpers.word_models import WORDS, word_model, word_tokenizer

DOCUMENTS = 9
EMPTY = 4
"""The document without a token."""


def saved_model(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """A word model in single precision, with its tokenizer."""
    model = nw.attach(word_model(seed, n_positions=64, **changes).float(), "softmax")
    model.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def texts() -> list[str]:
    """Random words, so that no two documents are alike; one of them is empty."""
    drawn = random.Random(0)
    return ["" if one == EMPTY else " ".join(drawn.choices(WORDS, k=20 + one)) for one in range(DOCUMENTS)]


def written(path: Path, rows: list[str]) -> Path:
    """Texts as a table."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in rows), encoding="utf-8")
    return path


SETTINGS = BuildSettings(window=16, shard_keys=50, batch_size=3)


def small_store(folder: Path, settings: BuildSettings = SETTINGS) -> tuple[Path, Path]:
    """Model and store, each in a folder."""
    model, data = saved_model(folder / "model"), written(folder / "data.jsonl", texts())
    build_datastore(model, data, folder / "store", settings)
    return model, folder / "store"
