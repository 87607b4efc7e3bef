from __future__ import annotations

import json

import pytest

from nextword.runtime.corpora.articles import STORIES
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.logicnlg import TABLE_PAIRS, CsvTable, TableSentence, read_logicnlg, read_table
from nextword.runtime.corpora.pairs import PairReading, Side, first_claiming, read_pairs
from tests.helpers.real_data import real_data

GAMES = "year#city#seats\n1896#athens#589\n2012#london#\n"
ENTRY = ["Athens was first", [1, 0], "games", "[ENT] was [ENT]"]


def write(folder, parts=("train", "val", "test"), **content):
    (folder / "all_csv").mkdir()
    (folder / "all_csv" / "games.csv").write_text(GAMES)
    for part in parts:
        (folder / f"{part}_lm.json").write_text(json.dumps(content.get(part, {"games.csv": [ENTRY]})))
    return folder


def fault(folder):
    with pytest.raises(ValueError, match=r"LogicNLG|columns|keep one") as error:
        read_logicnlg(folder)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_sentences_come_with_their_table_title_and_columns(tmp_path):
    second = ["London came later", [0], "games", ""]
    found = read_logicnlg(write(tmp_path, test={"games.csv": [ENTRY, second]}))
    table = CsvTable("games.csv", ("year", "city", "seats"), (("1896", "athens", "589"), ("2012", "london", "")))
    first = TableSentence(table, "games", (1, 0), "Athens was first")
    assert found.train == found.validation == [first]
    assert found.test == [first, TableSentence(table, "games", (0,), "London came later")]
    assert found.source == tmp_path.name


def test_sentences_as_pairs_have_the_other_sentences_of_a_test_table_as_references(tmp_path):
    second = ["London  came later ", [0], "games", ""]
    folder = write(tmp_path, train={"games.csv": [ENTRY, second]}, test={"games.csv": [ENTRY, second]})
    sides = Side("source", "source"), Side("target", "target")
    reading = PairReading(*sides, None, 0.1, 0.1, 0, other=first_claiming(TABLE_PAIRS, STORIES))
    found = read_pairs(folder, reading)
    table = "games\ncity | year\nathens | 1896\nlondon | 2012"
    years = "games\nyear\n1896\n2012"
    assert found.train == [Pair(table, "Athens was first"), Pair(years, "London came later")]
    assert found.test == [
        Pair(table, "Athens was first", ("London came later",)),
        Pair(years, "London came later", ("Athens was first",)),
    ]
    assert found.source == tmp_path.name
    (folder / "test_lm.json").unlink()
    with pytest.raises(ValueError, match="no test split"):
        read_pairs(folder, reading)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"Give a .jsonl file.*LogicNLG's files \(train_lm.json, all_csv\)"):
        read_pairs(tmp_path / "none", reading)


def test_checksum_is_that_of_sentences_and_tables(tmp_path):
    folder = write(tmp_path)
    before = read_logicnlg(folder).sha256
    assert read_logicnlg(folder).sha256 == before
    (folder / "all_csv" / "games.csv").write_text(GAMES.replace("589", "590"))
    assert read_logicnlg(folder).sha256 != before


@pytest.mark.parametrize("name", ["val", "dev", "valid", "validation"])
def test_validation_part_has_several_names(tmp_path, name):
    assert len(read_logicnlg(write(tmp_path, ("train", name, "test"))).validation) == 1


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a#b\n1#x\n\n2#y\n", [("1", "x"), ("2", "y")]),
        ("a#b\r\n1#x\r\n", [("1", "x")]),
        ("a#b\n1\n", [("1", "")]),
        ('a#b\n"x # y"#"say ""hi"""\n', [("x # y", 'say "hi"')]),
        ('a#b\n12"#5\' 10"\n', [('12"', "5' 10\"")]),
        ("\ufeffa#b\n1#a\x85b\u2028c\n", [("1", "a\x85b\u2028c")]),
    ],
)
def test_table_is_read_as_pandas_reads_it(tmp_path, text, rows):
    import pandas

    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    found = read_table(path)
    frame = pandas.read_csv(path, sep="#", dtype=str, keep_default_na=False, encoding="utf-8-sig").fillna("")
    assert found.rows == tuple(rows) == tuple(tuple(row) for row in frame.to_numpy().tolist())
    assert found.header == tuple(frame.columns)


def test_missing_folder_and_parts_are_named(tmp_path):
    assert f"('{tmp_path / 'no'}' given); download LogicNLG from" in fault(tmp_path / "no")
    assert "no train split" in (message := fault(tmp_path))
    assert "train_lm.json, training_lm.json" in message
    folder = write(tmp_path)
    (folder / "dev_lm.json").write_text("{}")
    assert "val_lm.json and dev_lm.json" in fault(folder)


def test_missing_tables_are_counted_and_the_first_is_named(tmp_path):
    folder = write(tmp_path, train={"games.csv": [ENTRY], "a.csv": [ENTRY], "b.csv": [ENTRY]})
    expected = f"2 of its 3 tables are not in {folder / 'all_csv'}, the first is 'a.csv'; download LogicNLG from"
    assert expected in fault(folder)
    (folder / "all_csv" / "games.csv").unlink()
    (folder / "all_csv").rmdir()
    assert "has no folder all_csv with the tables; download LogicNLG from github.com" in fault(folder)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "train_lm.json is empty"),
        ("  \n", "train_lm.json is empty"),
        ("{}", "no table given"),
        ('{"games.csv"', "train_lm.json, line 1: must be JSON"),
        ("[1]", "a list given"),
        ('{"games.csv": []}', "table 'games.csv': must be"),
        ('{"games.csv": {"pos": 1}}', "table 'games.csv': must be"),
        ('{"games.csv": [{"pos": ["a", [0], "t", ""]}]}', "table 'games.csv', sentence 1: must be [sentence, "),
        ('{"games.csv": [["a", [], "t", ""]]}', "sentence 1: must be [sentence, "),
        ('{"games.csv": [[" ", [0], "t", ""]]}', "sentence 1: must be [sentence, "),
        ('{"games.csv": [["a", [0], "t", ""], ["b", [3], "t", ""]]}', "sentence 2: must name columns of its table"),
        ('{"games.csv": [["a", ["0"], "t", ""]]}', "by numbers from 0 to 2 ('0' given)"),
    ],
)
def test_json_of_another_form_is_named_with_its_place(tmp_path, content, says):
    folder = write(tmp_path)
    (folder / "train_lm.json").write_text(content)
    message = fault(folder)
    assert says in message
    assert str(folder / "train_lm.json") in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "games.csv is empty"),
        (b"year#city#seats\n", "(1 lines given)"),
        (b"year#city#seats\n1896#a#b#c\n", "games.csv, row 1: must have 3 cells (4 given)"),
        (b"year#city#seats\n\xff#a#b\n", "games.csv: cannot be read as UTF-8 text"),
        (b'year#city#seats\n"' + b"x" * 140_000, "games.csv, line 2: cannot be read as a table"),
    ],
)
def test_table_of_another_form_is_named(tmp_path, content, says):
    folder = write(tmp_path)
    (folder / "all_csv" / "games.csv").write_bytes(content)
    assert says in fault(folder)


def test_real_files():
    found = read_logicnlg(real_data("logicnlg"))
    assert (len(found.train), len(found.validation), len(found.test)) == (1005, 250, 250)
    first = found.train[0]
    assert first.sentence == "Italy had the largest number of Bronze medal of all the country"
    assert first.title == "judo at the 2005 mediterranean games"
    assert [first.table.header[column] for column in first.columns] == ["nation", "bronze"]
