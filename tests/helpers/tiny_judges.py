"""Texts, tables and vocabularies for tiny models."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nextword.evaluation.metrics import Metric, Sample, Score, Setup, Table, parse_metric, registry

WORDS = ["the", "a", "is", "was", "in", "of", "not", "cat", "dog", "mat", "sat", "city", "year", "london", "athens"]
ENGLISH = [
    "The cat sat on the mat.",
    "A dog was in London, and not in Athens.",
    "In 2012 the games were held in the city of London.",
    "Rain.",
    "Nobody knew what the old man had won, because he never spoke of it to anyone in the village.",
]
KOREAN = ["정말 좋은 영화였다.", "응원해주고싶은 성장영화", "다시 보고 싶지는 않다."]
GAMES = Table(header=["year", "city"], rows=[["1896", "athens"], ["2012", "london"]], title="games")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
# A wide initialisation, so that random models give different answers to different texts.
WIDE = {"initializer_range": 0.7}


def word_pieces(folder: Path) -> int:
    """A vocabulary that spells every Latin text; anything else is unknown. Returns its size."""
    letters = string.ascii_lowercase + string.digits
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[EMPTY]"]
    pieces = [*special, *WORDS, *letters, *string.punctuation, *(f"##{letter}" for letter in letters)]
    pieces = list(dict.fromkeys(pieces))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return len(pieces)


def byte_pairs(folder: Path) -> int:
    """A byte-level vocabulary, which spells everything. Returns its size."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator([*ENGLISH, *KOREAN] * 3, vocab_size=330, special_tokens=special, show_progress=False)
    tokenizer.save_model(str(folder))
    return int(tokenizer.get_vocab_size())


MakeFolder = Callable[..., str]


def sample(line: int = 1, **fields: Any) -> Sample:
    """A sample as it is read from a file."""
    return Sample(**fields).bound(f"samples.jsonl line {line}", Sample().unit)


def metric(name: str, setup: Setup | None = None, **settings: Any) -> Metric:
    """A metric by name with settings."""
    config = parse_metric({"metric": name, **settings})
    return registry.get(name)(config, setup or Setup())


def scores(name: str, samples: list[Sample], setup: Setup | None = None, **settings: Any) -> dict[str, Score]:
    """What a metric says about samples."""
    one = metric(name, setup, **settings)
    for some in samples:
        one.add(some)
    return one.result()


def parts(score: Score) -> list[float]:
    """The value of each sample, NaN where it has none."""
    assert score.statistic is not None
    sums, counts = score.statistic.parts.T
    return [float(value) for value in np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.nan)]
