from __future__ import annotations

import json
from pathlib import Path

import pytest

from nextword.inference.scoring.measurement.data_files import read_texts
from nextword.settings.setting_names import of_command


def lines(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_a_file_of_text_is_one_text_with_its_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo\n")
    (example,) = read_texts([str(path)]).examples
    assert (example.text, example.id) == ("one\r\n\r\ntwo\n", "notes.md")


def test_each_row_is_a_text(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"target": "one", "source": "long one", "year": 3}, {"text": "two"})
    first, second = read_texts([path]).examples
    assert (first.text, first.source, first.id) == ("one", "long one", "a.jsonl:1")
    assert (second.text, second.source, second.id) == ("two", None, "a.jsonl:2")


@pytest.mark.parametrize(("ending", "comma"), [(".csv", ","), (".tsv", "\t")])
def test_columns_may_be_named(tmp_path: Path, ending: str, comma: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_text(f"story{comma}title\nonce upon{comma}A\nin the end{comma}B\n", encoding="utf-8")
    found = read_texts([str(path)], {"text": "story", "auxiliary": "title"})
    assert [(one.text, one.auxiliary) for one in found.examples] == [("once upon", "A"), ("in the end", "B")]
    assert found.fields == {"text": "story", "auxiliary": "title"}


def test_a_folder_is_read_by_its_part_or_as_a_whole(tmp_path: Path) -> None:
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(name)
    assert [one.text for one in read_texts([str(tmp_path)]).examples] == ["test.txt"]
    assert [one.text for one in read_texts([str(tmp_path)], split="train").examples] == ["train.txt"]
    assert [one.text for one in read_texts([str(tmp_path)], split="other").examples] == ["test.txt", "train.txt"]


def test_empty_rows_are_counted(tmp_path: Path) -> None:
    found = read_texts([lines(tmp_path / "a.jsonl", {"text": "one"}, {"text": ""}, {"text": " "})])
    assert (len(list(found.examples)), found.texts, found.empty) == (1, 1, 2)


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("a.txt", b"", {}, r"a\.txt': must have a text \(an empty file given\)"),
        ("a.txt", b"\x89PNG\r\n", {}, r"a\.txt' is not UTF-8 text \(byte 0\); is it a binary file\?"),
        ("a.bin", b"ab\0c", {}, r"a\.bin': must be text \(a zero byte at 2\); is it a binary file\?"),
        ("a.jsonl", b'{"text": "a"}\n{"body": "b"}\n', {}, r"line 2: must have 'text' or 'target' \(body given\)"),
        (
            "a.jsonl",
            b'{"text": "a"}\n',
            {"prompt": "p"},
            r"line 1: must have 'p' \(text given\); name the column of the prompt with fields=\{'prompt': 'COLUMN'\}",
        ),
        ("a.jsonl", b'{"text": 3}\n', {}, r"line 1: 'text' must be text \(int given\)"),
        ("a.jsonl", b'{"text": ""}\n', {}, r"must have a text that is not empty \(1 empty ones given\)"),
        ("a.jsonl", b"not json\n", {}, "line 1: not JSON"),
        ("a.txt", b"a", {"txt": "a"}, r"^fields: 'txt': must be one of text, .* Did you mean 'text'"),
    ],
)
def test_faults_are_said(tmp_path: Path, name: str, content: bytes, fields: dict[str, str], message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts([str(tmp_path / name)], fields)


def test_a_command_names_its_options(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "b"}\n')
    missing = str(tmp_path / "missing.txt")
    with pytest.raises(ValueError, match=r"^data: "):
        read_texts([missing])
    with of_command(lambda: {"data": "--data", "held": "--held", "field": "--field"}):
        with pytest.raises(ValueError, match=r"^--data: "):
            read_texts([missing])
        with pytest.raises(ValueError, match=r"^--held: "):
            read_texts([missing], where="held")
        with pytest.raises(ValueError, match="--field text=COLUMN"):
            read_texts([str(tmp_path / "a.jsonl")])


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tables .* \(the folder is empty\)"):
        read_texts([str(tmp_path)])


@pytest.mark.parametrize(
    ("sample_by", "texts"),
    [
        ("line", [("one\r\n", 2), ("two\n", 3), ("three", 6)]),
        ("paragraph", [("one\r\ntwo\n", 2), ("three", 6)]),
    ],
)
def test_a_file_of_text_may_be_many_texts(tmp_path: Path, sample_by: str, texts: list[tuple[str, int]]) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\none\r\ntwo\n\n \nthree")
    found = read_texts([str(path)], sample_by=sample_by)
    assert [(one.text, one.id) for one in found.examples] == [(text, f"a.txt:{line}") for text, line in texts]
    path.write_bytes(b"one\nt\0o")
    with pytest.raises(ValueError, match=r"byte in line 2\)"):
        read_texts([str(path)], sample_by=sample_by)
