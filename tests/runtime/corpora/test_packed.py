from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from nextword.runtime.corpora.packed import file_text, is_packed, numbered_lines

TEXT = "one é\r\n\ntwo"

PACKERS: list[Callable[[bytes], bytes]] = [
    gzip.compress,
    bz2.compress,
    lzma.compress,
    lambda content: pyarrow.compress(content, codec="zstd", asbytes=True),
]


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt"])
def test_a_packed_file_is_known_by_how_it_begins(pack: Callable[[bytes], bytes], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(pack(b"\xef\xbb\xbf" + TEXT.encode()))
    assert is_packed(path)
    assert file_text(path) == TEXT
    assert list(numbered_lines(path)) == [(1, "one é\r\n"), (2, "\n"), (3, "two")]


@pytest.mark.parametrize("pack", PACKERS)
def test_half_a_packed_file_is_named(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "half.txt"
    path.write_bytes(pack(bytes(range(256)) * 300)[:-9])
    with pytest.raises(ValueError, match=r"--data:.*cannot be read"):
        file_text(path, "--data")


def test_a_broken_packed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"")[:10] + b"\xff" * 30)
    with pytest.raises(ValueError, match=r"a.gz cannot be read"):
        file_text(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04\x14\x00", r"a.txt: must be a text or a table \(an archive, zip, given\); unpack it"),
        (b"Rar!\x1a\x07", r"an archive, rar, given"),
        ("ab".encode("utf-16"), r"a.txt is not UTF-8 text \(UTF-16, by its first bytes\); convert it"),
    ],
)
def test_what_is_not_read_is_said(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        file_text(path)


def test_a_text_that_begins_as_a_sign_does_is_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("BZh9 is how it begins")
    assert file_text(path) == "BZh9 is how it begins"
