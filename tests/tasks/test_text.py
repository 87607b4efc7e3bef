from __future__ import annotations

from pathlib import Path

import pytest

from nextword.tasks.text import read_parts


def test_folder(tmp_path: Path) -> None:
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_bytes(f"{name} Ünicode\r\n".encode())
    parts = read_parts(tmp_path)
    assert (parts.train, parts.validation, parts.test) == tuple(
        f"{name}.txt Ünicode\r\n" for name in ("train", "valid", "test")
    )
    assert parts.split == "files"


def test_single_file_is_cut_by_line(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    lines = [f"line {number}\n" for number in range(100)]
    path.write_text("".join(lines))
    parts = read_parts(path)
    assert parts.train == "".join(lines[:90])
    assert parts.validation == "".join(lines[90:95])
    assert parts.test == "".join(lines[95:])


def test_checksum_follows_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n" * 100)
    one = read_parts(path).sha256
    path.write_text("a\n" * 99 + "b\n")
    assert read_parts(path).sha256 != one


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'.*nowhere' does not exist. Give a text file, or a folder"):
        read_parts(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no train text in .* Looked for: train.txt, train"):
        read_parts(tmp_path)
    (tmp_path / "train.txt").write_text("x")
    with pytest.raises(ValueError, match=r"no validation text in"):
        read_parts(tmp_path)
    (tmp_path / "valid.txt").write_text(" \n")
    with pytest.raises(ValueError, match=r"'.*valid.txt' is empty"):
        read_parts(tmp_path)
    (tmp_path / "few.txt").write_text("one\ntwo\n")
    with pytest.raises(ValueError, match=r"has 2 lines, and the validation part would be empty"):
        read_parts(tmp_path / "few.txt")
    (tmp_path / "binary.txt").write_bytes(b"ab\xff")
    with pytest.raises(ValueError, match=r"is not UTF-8 text \(byte 2\)"):
        read_parts(tmp_path / "binary.txt")
