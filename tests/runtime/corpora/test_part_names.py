"""What one reader takes for a part of a data set, all take for it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from itertools import chain, zip_longest
from pathlib import Path

import pyarrow
import pytest
from datasets import Dataset, DatasetDict
from datasets.arrow_writer import ArrowWriter

from nextword.evaluation import read_samples
from nextword.evaluation.metrics.tokens import Words
from nextword.inference.scoring.measurement.data_files import read_texts
from nextword.runtime.corpora import PARTS, open_corpus, part_files
from nextword.runtime.corpora.gap_sentences import GapConfig
from nextword.runtime.corpora.pairs import PairReading, Side, gap_texts, read_pairs
from nextword.runtime.corpora.part_names import JSON_LINES, TABLES, TEXTS, separator_of, text_files
from nextword.runtime.corpora.texts import read_parts

READING = PairReading(Side("source", "source"), Side("target", "text"), None, 0.1, 0.1, 0, gap_texts(GapConfig()))
LINE = "A dog ran to {0}. A cat saw the dog {0}. The cat sat on {0}.\n"

NAMES = [dict(zip(PARTS, words, strict=True)) for words in (
    tuple(word or words[0] for word, words in zip(row, PARTS.values(), strict=True))
    for row in zip_longest(*PARTS.values())
)] + [{"train": "Raw_Train-0", "validation": "wiki.valid", "test": "testing/part-0"}]  # fmt: skip


PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pyarrow.compress(content, codec="zstd", asbytes=True),
}


def write(path: Path, part: str) -> None:
    """A text of its own for each part, in the form that the ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = LINE.format(part)
    row = {"source": f"about {part}", "text": text.strip()}
    if path.suffix == ".parquet":
        Dataset.from_list([row]).to_parquet(path)
        return
    if path.suffix == ".arrow":
        with ArrowWriter(path=str(path)) as writer:
            writer.write(row)
            writer.finalize()
        return
    content = f"{json.dumps(row)}\n" if any(map(path.name.endswith, JSON_LINES)) else text
    separator = separator_of(path)
    if separator is not None:
        content = "".join(f"{separator.join(cells)}\n" for cells in (row, row.values()))
    path.write_bytes(PACKERS.get(path.suffix, bytes)(content.encode()))


def counted(folder: Path) -> dict[str, str]:
    return {part: "".join(open_corpus(folder, "data", split=part)) for part in PARTS}


def trained(folder: Path) -> dict[str, str]:
    found = read_parts(folder)
    return {part: getattr(found, part) for part in PARTS}


def paired(folder: Path) -> dict[str, str]:
    found = read_pairs(folder, READING)
    return {part: "".join(f"{pair.text.partition(chr(10))[2] or pair.text}\n" for pair in getattr(found, part))
            for part in PARTS}  # fmt: skip


def reads(ending: str) -> list[Callable[[Path], dict[str, str]]]:
    return [counted, trained] + ([paired] if ending in (*JSON_LINES, *TEXTS) else [])


@pytest.mark.few(30)
@pytest.mark.parametrize("ending", [*TABLES, *TEXTS])
@pytest.mark.parametrize("names", NAMES, ids=lambda names: names["validation"])
def test_every_reader_finds_the_same_parts(names: dict[str, str], ending: str, tmp_path: Path) -> None:
    for part, name in names.items():
        write(tmp_path / f"{name}{ending}", part)
    for read in reads(ending):
        assert read(tmp_path) == {part: LINE.format(part) for part in PARTS}, read.__name__


def test_every_word_for_a_part_is_tried() -> None:
    assert {word for names in NAMES for word in names.values()} >= set(chain(*PARTS.values()))


@pytest.mark.parametrize("ending", JSON_LINES)
def test_samples_are_read_from_every_kind_of_json_lines(ending: str, tmp_path: Path) -> None:
    write(tmp_path / f"mine{ending}", "train")
    assert [sample.text for sample in read_samples(tmp_path / f"mine{ending}", Words())] == [
        LINE.format("train").strip()
    ]


def test_a_file_called_as_the_part_is_the_part(tmp_path: Path) -> None:
    for name in ("train.txt", "train.csv", "wiki.train.tokens", "old/train.txt"):
        write(tmp_path / name, name)
    for part in ("valid", "test"):
        write(tmp_path / f"{part}.txt", part)
    assert part_files(tmp_path, "training", "data") == [tmp_path / "train.txt"]
    assert counted(tmp_path) == trained(tmp_path)
    write(tmp_path / "training.txt", "other")
    for read in (counted, trained):
        with pytest.raises(ValueError, match=r"training.txt"):
            read(tmp_path)


def test_pieces_of_a_text_are_joined_at_line_ends(tmp_path: Path) -> None:
    for part in PARTS:
        for number in range(2):
            path = tmp_path / part / f"{number}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{part} {number}")
    assert trained(tmp_path)["train"] == "train 0\ntrain 1"


def test_data_sets_saved_to_disk_are_tables(tmp_path: Path) -> None:
    parts = {
        part: Dataset.from_list([{"text": f"{part} one", "label": 0}, {"text": f"{part} two", "label": 1}])
        for part in PARTS
    }
    parts["train"].save_to_disk(tmp_path / "one", num_shards=2)
    (tmp_path / "one" / "cache-1.arrow").write_bytes(b"what map kept")
    DatasetDict(parts).save_to_disk(tmp_path / "all")
    assert list(open_corpus(tmp_path / "one", "data")) == ["train one\n", "train two\n"]
    for part in PARTS:
        assert list(open_corpus(tmp_path / "all", "data", split=part)) == [f"{part} one\n", f"{part} two\n"]
    assert read_parts(tmp_path / "all", "text").test == "test one\ntest two\n"
    for folder, texts in (("one", ["train one", "train two"]), ("all", ["test one", "test two"])):
        assert [one.text for one in read_texts([str(tmp_path / folder)]).examples] == texts
    Dataset.from_list([{"text": f"{number}"} for number in range(40)]).save_to_disk(tmp_path / "cut", num_shards=2)
    cut = read_parts(tmp_path / "cut", "text")
    assert (cut.train.split()[-1], cut.validation, cut.test) == ("35", "36\n37\n", "38\n39\n")
    (tmp_path / "state.json").write_text('{"text": "of somebody"}\n')
    assert (tmp_path / "state.json") in text_files(tmp_path)
