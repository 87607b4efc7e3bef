from __future__ import annotations

import gzip
import lzma
from contextlib import nullcontext
from pathlib import Path

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from nextword.runtime.corpora import lines, open_corpus, part_files
from nextword.runtime.corpora.open import _span, is_hub_name, of_files, published
from nextword.settings.setting_names import of_command

ROWS = ['one "quoted, text', "null", "NA", "3", "", "'", 'a\u2028b"']


def write(path: Path, rows: list[str] = ROWS) -> Path:
    """A table of two columns in the form that the ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = Dataset.from_dict({"number": list(range(len(rows))), "review": rows})
    if path.suffix == ".tsv":
        path.write_text("number\treview\n" + "".join(f"{n}\t{row}\n" for n, row in enumerate(rows)), encoding="utf-8")
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".csv":
        table.to_csv(path)
    else:
        table.to_json(path, force_ascii=False)
    return path


def read(path: Path | str, column: str | int = "review", **given: str) -> list[str]:
    return list(open_corpus(path, "data", text_column=column, **given))


@given(st.text(st.sampled_from("a\n\r\f\u2028é"), max_size=12))
def test_lines_are_cut_at_line_feeds_only(text: str) -> None:
    found = list(lines(text))
    assert "".join(found) == text
    assert all(line.count("\n") == line.endswith("\n") for line in found)
    assert all(line.endswith("\n") for line in found[:-1])


@given(st.text(st.sampled_from("ab\n\ré"), max_size=30), st.integers(1, 9))
def test_pieces_of_a_file_make_its_lines(tmp_path_factory: pytest.TempPathFactory, text: str, size: int) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.txt"
    path.write_bytes(text.encode())
    length = len(text.encode())
    pieces = [_span(path, begin, min(begin + size, length)) for begin in range(0, length, size)]
    assert "".join(pieces) == text
    assert all(piece.endswith("\n") for piece in pieces[:-1] if piece and not text.endswith(piece))


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
@pytest.mark.parametrize("streaming", [True, False])
def test_tables_give_the_text_as_it_stands(ending: str, streaming: bool, tmp_path: Path) -> None:
    path = write(tmp_path / f"rows.{ending}")
    corpus = of_files([path], "data", "review", streaming)
    assert list(corpus) == [f"{row}\n" for row in ROWS]
    assert corpus.source == f"rows.{ending}"
    with pytest.raises(ValueError, match=rf"rows.{ending}' has no column 'text', only number, review. Name the one"):
        read(path, "text")


@pytest.mark.parametrize(
    ("where", "options", "hint"),
    [
        ("data", {}, "text_column=COLUMN"),
        ("task.data", {}, "task.text_column=COLUMN"),
        ("data", {"text_column": "--text-column"}, "--text-column COLUMN"),
        ("data", {"field": "--field"}, "--field text=COLUMN"),
    ],
)
def test_a_missing_column_is_told_with_what_names_it(
    where: str, options: dict[str, str], hint: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "rows.csv")
    with of_command(lambda: options) if options else nullcontext(), pytest.raises(ValueError, match=f" {hint}\\."):
        of_files([path], where, "text")


def test_tsv_without_quoting_is_a_plain_split(tmp_path: Path) -> None:
    rows = ['"open', 'both"sides"', '""', "x'y", "lone\rreturn", "trailing ", "탭 없음 ♥"]
    path = write(tmp_path / "raw_train.tsv", rows)
    plain = [line.split("\t")[1] for line in path.read_bytes().decode().split("\n")[1:] if line]
    assert plain == rows
    assert read(path) == [f"{row}\n" for row in plain]


def test_number_of_a_column_without_header(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'1,"a, b",x\r\n2,NA,y\r\n')
    assert read(path, 1) == ["a, b\n", "NA\n"]
    assert read(path, 0) == ["1\n", "2\n"]
    with pytest.raises(ValueError, match="'3'"):
        read(path, 3)


def test_header_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,b\nx,1\n", encoding="utf-8-sig")
    assert read(path, "text") == ["x\n"]


def test_packed_lines(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"review": "a"}\n{"review": "b\\nc"}\n'))
    assert read(path) == ["a\n", "b\n", "c\n"]


def test_folders(tmp_path: Path) -> None:
    for name in ("raw_train.jsonl", "raw_valid.jsonl", "test/part-0.jsonl", "test/part-1.jsonl"):
        write(tmp_path / name, [name])
    (tmp_path / "LICENSE").write_text("not a text")
    assert [read(tmp_path, split=split) for split in ("train", "validation", "test")] == [
        ["raw_train.jsonl\n"], ["raw_valid.jsonl\n"], ["test/part-0.jsonl\n", "test/part-1.jsonl\n"]
    ]  # fmt: skip
    assert [path.name for path in part_files(tmp_path, "test", "data")] == ["part-0.jsonl", "part-1.jsonl"]
    texts = tmp_path / "texts"
    texts.mkdir()
    with pytest.raises(ValueError, match="files and no tables"):
        read(texts)
    for name in ("b.txt", "a.txt"):
        (texts / name).write_text(f"{name} without line end")
    assert read(texts) == ["a.txt without line end", "b.txt without line end"]  # no parts named: all, by name
    (texts / "dev.txt").write_text("x")
    with pytest.raises(ValueError, match="validation"):
        read(texts)
    write(texts / "raw_train.csv")
    write(texts / "raw_train.tsv")
    with pytest.raises(ValueError, match=r"raw_train.csv"):
        read(texts)


def test_a_part_is_not_asked_of_what_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    for data in (tmp_path / "a.txt", tmp_path, Dataset.from_dict({"review": ["a"]})):
        assert list(open_corpus(data, "data", text_column="review"))
        with pytest.raises(ValueError, match=r"data:.*'valid'"):
            open_corpus(data, "data", text_column="review", split="valid")


def hub_folder(folder: Path) -> Path:
    """A folder laid out as a data set of the hub with two configurations."""
    for config in ("small", "large"):
        for split in ("train", "validation", "test"):
            write(folder / config / f"{split}-00000-of-00001.parquet", [f"{config} {split}"])
    paths = "".join(
        f"- config_name: {config}\n  data_files:\n"
        + "".join(
            f"  - split: {split}\n    path: {config}/{split}-*.parquet\n" for split in ("train", "validation", "test")
        )
        for config in ("small", "large")
    )
    (folder / "README.md").write_text(f"---\nlicense: cc0-1.0\nconfigs:\n{paths}---\n# About\n")
    return folder


def test_a_data_set_as_on_the_hub(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path / "reviews")
    assert set(published(f"{folder}:large", "data")) == {"train", "validation", "test"}
    corpus = open_corpus(f"{folder}:large", "data", text_column="review", split="validation")
    assert list(corpus) == ["large validation\n"]
    assert read(f"{folder}:small") == ["small train\n"]
    assert read(f"{folder}:small", split="dev") == ["small validation\n"]
    with pytest.raises(ValueError, match="'extra'"):
        read(f"{folder}:small", split="extra")
    with pytest.raises(ValueError, match="could be read"):
        read(f"{folder}:huge")
    # without its description, the configuration is a folder
    (folder / "README.md").unlink()
    assert read(f"{folder}:small") == ["small train\n"]


def test_names_of_the_hub() -> None:
    assert all(map(is_hub_name, ("wikitext", "Salesforce/wikitext", "Salesforce/wikitext:wikitext-103-raw-v1")))
    assert not any(map(is_hub_name, ("../x", "x/y/z", "/x", "a b", "runs/train.txt", "rows.tsv", "", "x:")))


def test_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for content, message in (
        ('{"review": "a"}\n{"review": \n', r"rows.jsonl', line 2: not JSON"),
        ('{"review": 3}\n', r"rows.jsonl', line 1: 'review' must be text \(3 given\)"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            read(path)
        with pytest.raises(ValueError, match=message):
            of_files([path], "data", "review", streaming=False)
    path = tmp_path / "rows.csv"
    path.write_text("review,b\nx,1\n")
    (tmp_path / "more.csv").write_text("b,review\n1,x\n")
    with pytest.raises(ValueError, match=r"differ in their columns"):
        of_files([path, tmp_path / "more.csv"], "data", "review")
    text = tmp_path / "a.txt"
    text.write_bytes(b"ab\n\xff")
    with pytest.raises(ValueError, match=r"UTF-8 text \(byte"):
        read(text)


@pytest.mark.parametrize("streaming", [True, False])
def test_only_the_column_with_the_text_matters(streaming: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        '{"text": "2021-01-02T03:04:05", "n": 1}',
        '{"text": null, "n": "b"}',
        '{"n": {"deep": []}, "text": "c", "new": 1}',
    ]
    path.write_text("".join(f"{row}\n" for row in rows * 2000))
    assert list(of_files([path], "data", "text", streaming)) == ["2021-01-02T03:04:05\n", "\n", "c\n"] * 2000


def test_what_was_stored_of_a_file_is_not_read_after_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for text in ("one", "three"):
        path.write_text(f'{{"text": "{text}"}}\n')
        assert list(of_files([path], "data", "text", streaming=False)) == [f"{text}\n"]


def test_token_ids_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"input_ids": [1, 2], "attention_mask": [1, 0], "x": "y"}\n')
    for streaming in (True, False):
        corpus = of_files([path], "data", "text", streaming)
        assert corpus.lines is None
        assert corpus.columns == ("input_ids", "attention_mask")
        assert list(corpus.rows) == [{"input_ids": [1, 2], "attention_mask": [1, 0]}]


@pytest.mark.parametrize("streaming", [True, False])
def test_packed_text_is_read_in_pieces(streaming: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("nextword.runtime.corpora.row_files.PIECE", 6)
    text = "one\r\ntwo\n\nthree\nfour"
    for name in ("a.txt.xz", "b"):
        (tmp_path / name).write_bytes(lzma.compress(text.encode()))
        corpus = of_files([tmp_path / name], "data", "text", streaming)
        assert list(corpus) == list(lines(text))
        assert [row["text"] for row in corpus.rows] == ["one\r\ntwo\n", "\nthree\n", "four"]


def test_a_very_long_line_is_cut_before_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextword.runtime.corpora.open.LONGEST_LINE", 8)
    assert list(lines("one two three four\nfive six\nabcdefghij k\n")) == [
        "one two", " three", " four\n", "five", " six\n", "abcdefgh", "ij k\n"
    ]  # fmt: skip


def test_what_a_file_begins_with_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\n")
    assert read(path) == ["one\n"]
    path.write_bytes(b"PK\x03\x04 of a zip")
    with pytest.raises(ValueError, match=r"data:.*\(an archive, zip, given"):
        read(path)
