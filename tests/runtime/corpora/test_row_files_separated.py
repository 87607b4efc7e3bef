"""Rows of .csv and .tsv: the text that was meant, or one line that names file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.runtime.corpora.row_files import table_rows


def read(path: Path, content: str, with_header: bool = True) -> list[tuple[int, dict[str, str]]]:
    path.write_bytes(content.encode())
    return [(row.number, row.content) for row in table_rows(path, "data", with_header)]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("id,text\n1,a\n2,b", [{"id": "1", "text": "a"}, {"id": "2", "text": "b"}]),
        ("\ufeff\n \n\r\nid,text\r\n1,a\r\n\r\n2,b\r\n", [{"id": "1", "text": "a"}, {"id": "2", "text": "b"}]),
        ("id,text,\n1,a,\n2,b,\n", [{"id": "1", "text": "a", "": ""}, {"id": "2", "text": "b", "": ""}]),
        ("id,text\n1\n2,\n", [{"id": "1", "text": ""}, {"id": "2", "text": ""}]),
        ('id,text\n1,"a, ""b""\r\n\n c"\n2,d\n', [{"id": "1", "text": 'a, "b"\r\n\n c'}, {"id": "2", "text": "d"}]),
        ('text,id\nab"c"d,NA\n\'null,0012\n', [{"text": 'ab"c"d', "id": "NA"}, {"text": "'null", "id": "0012"}]),
        ("text,id\nab\rd\0,1\n", [{"text": "ab\rd\0", "id": "1"}]),
        (f'text\n"{"x," * 100_000}"\n', [{"text": "x," * 100_000}]),
    ],
)
def test_cells_are_text_as_they_stand(content: str, rows: list[dict[str, str]], tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", content) == list(enumerate(rows, 1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "text,label\nthe cat sat on the mat,0,\na dog ran,1,\n",
            r"a.csv', line 2: must have 2 cells as the first row has \(3 given: the cat sat on the mat,0,\); quote a ",
        ),
        (
            "a.csv",
            "id,text\n1,the cat, sat on the mat\n2,b\n",
            r"line 2: must have 2 cells .* \(3 given: 1,the cat, sat",
        ),
        ("a.csv", "id,text\n1,a\n\n2,b,c,d\n", r"line 4: must have 2 cells as the first row has \(4 given"),
        ("a.tsv", "id\ttext\n1\ta\tb\n", r"line 2: must have 2 cells .*; a text must have no tab"),
        ("a.csv", "text,id,text\na,1,b\n", r"a.csv': must name each column once \('text' comes twice\)"),
        ("a.csv", "id,text\r1,a\r2,b\r", r"a.csv': must have line ends .* \(single carriage returns given"),
        ("a.csv", 'id,text\n1,"a\n2,b\n', r"line 2: must have quotation marks only around whole cells"),
        ("a.csv", 'id,text\n1,"a" b\n', r"line 2: must have quotation marks only around whole cells"),
        ("a.csv", "", r"a.csv' is empty"),
        ("a.csv", " \n\n", r"a.csv' is empty"),
        ("a.csv", "id,text\n", r"a.csv' is empty"),
    ],
)
def test_what_is_no_table_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, content)


def test_columns_without_header_are_numbered(tmp_path: Path) -> None:
    assert read(tmp_path / "a.tsv", '1\t"a\n\t\n', with_header=False) == [
        (1, {"0": "1", "1": '"a'}),
        (2, {"0": "", "1": ""}),
    ]
    with pytest.raises(ValueError, match=r"line 2: must have 1 cells"):
        read(tmp_path / "a.csv", "a\nb,c\n", with_header=False)


@given(
    st.lists(st.lists(st.text(st.sampled_from('a",\r\n '), max_size=5), min_size=2, max_size=2), min_size=1, max_size=5)
)
def test_what_the_library_writes_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    import csv

    path = tmp_path_factory.getbasetemp() / "written.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["one", "two"], *rows])
    assert [list(row.content.values()) for row in table_rows(path, "data")] == rows
