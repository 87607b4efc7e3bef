from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict, IterableDataset, load_dataset

from nextword.experiments.tasks.tokenizers import trained_tokenizer, word_tokenizer
from nextword.functional.frequency import TokenCounts, count_tokens, counting, tokenizer_fingerprint
from nextword.functional.frequency.counting import alone, partial_path
from nextword.inference.scoring.text_tokens import token_ids
from nextword.results.records import DiskFullError
from nextword.runtime import resumable
from nextword.runtime.resumable import ArrayCheckpoint
from tests.helpers.full_disk import largest_file

# Line ends of all kinds, a form feed that is none, an empty line, characters of several bytes, no line end at the end.
TEXT = "The cat sat .\nThe dög\r\nsat\fon\n\n" * 40 + "정말 좋았다\rok\n" * 10 + "the end"
TOKENIZER = trained_tokenizer(TEXT, 290, None)
ROWS = [f"row {number} sat on 좋았다" for number in range(300)]


class Stop(Exception):  # noqa: N818
    """A count is killed."""


def expected(text: str) -> list[int]:
    return np.bincount(token_ids(TOKENIZER, text), minlength=len(TOKENIZER)).tolist()


def of_rows(rows: list[str]) -> list[int]:
    return expected("".join(f"{row}\n" for row in rows))


@pytest.fixture
def text_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is cut into many pieces, also within lines and characters."""
    monkeypatch.setattr("nextword.runtime.corpora.open.SPAN", 37)
    path = tmp_path / "train.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    Dataset.from_dict({"text": ROWS, "other": list(range(len(ROWS)))}).to_json(path, force_ascii=False)
    return path


@pytest.mark.few(3)
@pytest.mark.parametrize("span", [1, 2, 37, 10_000])
def test_a_text_file_counts_as_the_task_does(span: int, text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextword.runtime.corpora.open.SPAN", span)
    if span == 1:  # every byte a piece of its own: a short file will do
        text_file.write_bytes(TEXT[:90].encode())
    counted = count_tokens(text_file, TOKENIZER)
    assert counted.counts.tolist() == expected(text_file.read_bytes().decode())
    assert (counted.source, counted.tokenizer) == ("train.txt", tokenizer_fingerprint(TOKENIZER))


def test_a_line_that_is_a_corpus_is_counted_in_parts(
    text_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("nextword.runtime.corpora.open.LONGEST_LINE", 50)
    monkeypatch.setattr(counting, "AT_ONCE", 120)
    path = tmp_path / "rows.jsonl"
    Dataset.from_dict({"text": ["The cat sat" + " on the cat" * 100, "end"]}).to_json(path)
    counted = count_tokens(path, TOKENIZER)
    assert counted.counts.tolist() == expected("The cat sat" + " on the cat" * 100 + "\nend\n")
    monkeypatch.setattr("nextword.runtime.corpora.open.LONGEST_LINE", 10_000)
    assert counted.counts.tolist() == expected("The cat sat" + " on the cat" * 100 + "\nend\n")


@pytest.mark.few(1)
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_any_number_of_processes_counts_the_same(processes: int, text_file: Path, table: Path) -> None:
    assert count_tokens(str(text_file), TOKENIZER, processes=processes).counts.tolist() == expected(TEXT)
    assert count_tokens(table, TOKENIZER, processes=processes, batch_size=7).counts.tolist() == of_rows(ROWS)


def test_two_counts_into_one_file_are_refused(text_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.npz"
    with alone(out), pytest.raises(ValueError, match=r"c\.npz:.*written by one process"):
        count_tokens(text_file, TOKENIZER, out=out)
    count_tokens(text_file, TOKENIZER, out=out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.npz", text_file.name]


def test_counts_are_not_written_over_what_is_counted(text_file: Path, tmp_path: Path) -> None:
    text = text_file.read_bytes()
    (tmp_path / "link").symlink_to(text_file)
    for data, out in ((text_file, tmp_path / "link"), (tmp_path / "link", str(text_file)), (tmp_path, text_file)):
        with pytest.raises(ValueError, match="must not be a file that is read"):
            count_tokens(data, TOKENIZER, out=out)
    assert text_file.read_bytes() == text


def test_a_full_disk_is_said(text_file: Path, tmp_path: Path) -> None:
    with largest_file(1000), pytest.raises(DiskFullError, match=r"c\.npz cannot be written"):
        count_tokens(text_file, TOKENIZER, out=tmp_path / "c.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == [text_file.name]


def test_steps_grow_while_they_are_quick(text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    count_tokens(text_file, TOKENIZER, progress=told.append)
    monkeypatch.setattr(counting, "STEP_SECONDS", 0.0)
    steps: list[int] = []
    count_tokens(text_file, TOKENIZER, progress=steps.append)
    assert told[0] == steps[0]
    assert 1 < len(told) < len(steps)
    assert told[-1] == steps[-1]


@pytest.mark.slow
def test_everything_that_holds_rows_counts_the_same(table: Path) -> None:
    dataset = Dataset.from_dict({"text": ROWS})
    stream = load_dataset("json", data_files=str(table), split="train", streaming=True)
    generated = IterableDataset.from_generator(lambda: ({"text": row} for row in ROWS))
    for data in (
        table,
        dataset,
        dataset.to_iterable_dataset(num_shards=3),
        stream,
        generated,
        generated.shuffle(seed=0),
    ):
        assert count_tokens(data, TOKENIZER, batch_size=11).counts.tolist() == of_rows(ROWS)
    assert count_tokens(dataset, TOKENIZER, processes=2, batch_size=11).counts.tolist() == of_rows(ROWS)
    ends = Dataset.from_dict({"text": ["a\nb\n", "", None, "c"]})  # a line end is not doubled, and a row is a line
    assert count_tokens(ends, TOKENIZER).counts.tolist() == expected("a\nb\n\n\nc\n")


def test_ids_and_padding() -> None:
    ids = [[5, 6, 6, 0], [7, 6, 1, 0]]
    counted = count_tokens(Dataset.from_dict({"input_ids": ids}), TOKENIZER)
    assert counted.counts[:8].tolist() == [2, 1, 0, 0, 0, 1, 3, 1]
    mask = [[1, 1, 1, 0], [1, 1, 0, 0]]
    masked = Dataset.from_dict({"input_ids": ids, "attention_mask": mask, "text": ["", ""]})
    for data in (masked, masked.with_format("torch"), masked.to_iterable_dataset()):
        counted = count_tokens(data, TOKENIZER)
        assert counted.counts[:8].tolist() == [0, 0, 0, 0, 0, 1, 3, 1]
        assert counted.counts[8:].sum() == 0


def killed(after: int):
    """A progress callback that stops the count; the list holds what it was told."""
    told: list[int] = []

    def progress(done: int) -> None:
        told.append(done)
        if len(told) == after:
            raise Stop

    return told, progress


def streams(table: Path) -> Iterator[tuple[str, object]]:
    yield "lazily read table", table
    yield "generator", IterableDataset.from_generator(lambda: ({"text": row} for row in ROWS))
    yield "several parts", Dataset.from_dict({"text": ROWS}).to_iterable_dataset(num_shards=4)


@pytest.mark.few(1)
@pytest.mark.parametrize("saves", [0.0, 1e9], ids=["at every step", "when interrupted"])
def test_a_killed_count_goes_on(
    saves: float, text_file: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "SAVE_SECONDS", saves)
    monkeypatch.setattr(counting, "STEP_SECONDS", 0.0)  # steps stay short
    datasets = [*streams(table), ("text", text_file), ("data set", Dataset.from_dict({"text": ROWS}))]
    for name, data in datasets:
        out = tmp_path / f"{name}.npz"
        for kill in (2, 2):
            with pytest.raises(Stop):
                count_tokens(data, TOKENIZER, out=out, batch_size=13, progress=killed(kill)[1])
            assert partial_path(out).exists(), name
            assert not out.exists()
        told, progress = killed(10**6)
        counted = count_tokens(data, TOKENIZER, out=out, batch_size=13, progress=progress)
        assert counted.counts.tolist() == (expected(TEXT) if name == "text" else of_rows(ROWS)), name
        assert told[0] > 0, "began again"
        assert told[-1] == (len(TEXT.split("\n")) if name == "text" else len(ROWS))
        assert TokenCounts.load(out).counts.tolist() == counted.counts.tolist()
        assert not partial_path(out).exists()


def test_a_count_killed_without_a_word_goes_on(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power cut: the last save is older than what was counted."""
    monkeypatch.setattr(resumable, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(counting, "STEP_SECONDS", 0.0)
    out = tmp_path / "c.npz"
    kept = []

    def progress(done: int) -> None:
        kept.append(partial_path(out).read_bytes())
        if len(kept) == 4:
            raise Stop

    with pytest.raises(Stop):
        count_tokens(text_file, TOKENIZER, out=out, progress=progress)
    partial_path(out).write_bytes(kept[1])
    assert count_tokens(text_file, TOKENIZER, out=out).counts.tolist() == expected(TEXT)


def test_going_on_otherwise_is_refused(text_file: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.npz"
    with pytest.raises(Stop):
        count_tokens(table, TOKENIZER, out=out, batch_size=50, progress=killed(2)[1])
    other = word_tokenizer(["a b"])
    for given, what in (
        ({"tokenizer": other}, "tokenizer"),
        ({"data": text_file}, "data"),
        ({"batch_size": 20}, "batch_size"),
        ({"processes": 2}, "reading"),
    ):
        with pytest.raises(
            ValueError, match=rf"c.npz.partial belongs to another count \(.*{what}: .* there, .* asked for"
        ):
            count_tokens(**{"data": table, "tokenizer": TOKENIZER, "out": out, "batch_size": 50} | given)
    table.write_text('{"text": "changed", "other": 1}\n')
    with pytest.raises(ValueError, match="belongs to another"):
        count_tokens(table, TOKENIZER, out=out, batch_size=50)
    partial_path(out).write_bytes(partial_path(out).read_bytes()[:100])
    with pytest.raises(ValueError, match=r"partial:.*unfinished"):
        count_tokens(table, TOKENIZER, out=out, batch_size=50)
    shuffled = IterableDataset.from_generator(lambda: ({"text": row} for row in ROWS)).shuffle(seed=0)
    with pytest.raises(ValueError, match="shuffled stream"):
        count_tokens(shuffled, TOKENIZER, out=tmp_path / "s.npz")


def test_settings_of_the_process_are_left_alone(text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "odd")
    environment = os.environ
    count_tokens(text_file, TOKENIZER, processes=2)
    assert os.environ is environment
    assert os.environ["TOKENIZERS_PARALLELISM"] == "odd"
    monkeypatch.delenv("TOKENIZERS_PARALLELISM")
    count_tokens(text_file, TOKENIZER)
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_bad_data(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    blank = Dataset.from_dict({"text": [" "]})
    for data, message in (
        (empty, r"data: 'empty.txt' is empty"),
        (Dataset.from_dict({"input_ids": [[], []]}).cast_column("input_ids", ids_type()), "there is no token in"),
        (Dataset.from_dict({"input_ids": [[1, 9999]]}), "token 9999 is not among the 290 tokens"),
        (Dataset.from_dict({"input_ids": [[1, -100]]}), "token -100 is not among"),
        (Dataset.from_dict({"input_ids": [[1, 2]], "attention_mask": [[1]]}), "1 positions of attention_mask for 2"),
        (Dataset.from_dict({"text": [3]}), r"column 'text' must hold text, has int \(3\)"),
        (Dataset.from_dict({"body": ["a"]}), "has no column 'text', only body. Name the one with the text"),
        (DatasetDict(train=blank), r"one data set \(splits train given"),
        (tmp_path / "gone.txt", "data: '.*gone.txt' does not exist"),
    ):
        with pytest.raises(ValueError, match=message):
            count_tokens(data, TOKENIZER)
    with pytest.raises(ValueError, match="data set'"):
        count_tokens(blank, word_tokenizer(["a"]))  # drops spaces
    with pytest.raises(ValueError, match=r"processes:.*\(0 given"):
        count_tokens(blank, TOKENIZER, processes=0)


def ids_type():
    from datasets import List, Value

    return List(Value("int64"))


def test_an_interruption_is_one_whatever_is_made_of_it() -> None:
    def counted(interrupt: bool) -> None:
        with counting._interrupted_alone():
            try:
                if interrupt:
                    os.kill(os.getpid(), signal.SIGINT)
            finally:
                raise TimeoutError("datasets waited for the others")

    for interrupt, error in ((True, KeyboardInterrupt), (False, TimeoutError)):
        with pytest.raises(error):
            counted(interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_forked_processes_are_left_alone_by_an_interruption() -> None:
    with counting._interrupted_alone():
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGINT)
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_interruption_before_anything_is_counted_says_so(text_file: Path, tmp_path: Path) -> None:
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        count_tokens(text_file, TOKENIZER, out=tmp_path / "c.npz", progress=interrupt)
    assert partial_path(tmp_path / "c.npz").exists()
    steps = iter(lambda: interrupt(0), None)
    with pytest.raises(KeyboardInterrupt, match="nothing was counted yet"):
        counting._followed(steps, ArrayCheckpoint(tmp_path / "d.npz", "count", {}), None)
