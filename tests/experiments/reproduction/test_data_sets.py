from __future__ import annotations

from pathlib import Path

import pytest

from nextword.experiments.reproduction.data_sets import DataFolder, known_data_sets


@pytest.fixture
def folder(tmp_path):
    for name in ("train.txt", "valid.txt", "test.txt"):
        path = tmp_path / "wikitext-2" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("some text\n")
    return tmp_path


def test_paths_of_files_of_folders_and_in_lists(folder):
    data = DataFolder(folder)
    assert data.resolved("wikitext-2/test.txt") == str(folder / "wikitext-2" / "test.txt")
    assert data.resolved("wikitext-2") == str(folder / "wikitext-2")
    assert data.resolved(["wikitext-2/test.txt", "wikitext-2"]) == [
        str(folder / "wikitext-2" / "test.txt"),
        str(folder / "wikitext-2"),
    ]


def test_a_data_set_may_lie_elsewhere(folder, tmp_path):
    data = DataFolder.of_options([f"wikitext-2={folder / 'wikitext-2'}"])
    assert Path(data.resolved("wikitext-2/train.txt")) == folder / "wikitext-2" / "train.txt"
    with pytest.raises(ValueError, match=r"^data:.*xsum=PATH"):
        data.resolved("xsum/pairs.jsonl")


def test_what_is_missing_or_empty_is_named_with_where_to_get_it(folder):
    (folder / "wikitext-2" / "test.txt").unlink()
    with pytest.raises(ValueError, match=r"wikitext-2/test.txt"):
        DataFolder(folder).resolved("wikitext-2")
    (folder / "wikitext-2" / "test.txt").touch()
    with pytest.raises(ValueError, match=r"wikitext-2/test.txt must not be empty"):
        DataFolder(folder).resolved("wikitext-2")
    with pytest.raises(ValueError, match=r"xsum/pairs.jsonl"):
        DataFolder(folder).resolved("xsum/pairs.jsonl")


def test_what_is_missing_is_said_in_one_sentence(folder):
    with pytest.raises(ValueError, match=r"by Mikolov et al\.$"):
        DataFolder(folder).resolved("google-analogies/questions-words.txt")


def test_all_that_is_missing_is_listed_once(folder):
    lines = DataFolder(folder).missing(["wikitext-2", "xsum/pairs.jsonl", ["xsum/pairs.jsonl"]])
    assert len(lines) == 1
    assert "XSum" in lines[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nowhere"], r"^data: must be a folder .* \('nowhere' does not exist\)"),
        (
            ["pyproject.toml"],
            r"^data: must be a folder .* \('pyproject.toml' is a file\); give a single data set as NAME=PATH",
        ),
        ([".", ".."], r"^data: must be one folder \(2 given\)"),
        (["xsum=.", "xsum=.."], r"^data: must name xsum once \(. and .. given\)"),
        (["xsum=nowhere"], r"^data: xsum=nowhere must exist \(not found\). It is part of XSum: Narayan"),
        (["xsam=x"], r"^data: must be a known data set \('xsam' given\). Did you mean 'xsum'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DataFolder.of_options(options)


def test_every_known_data_set_says_what_it_has_and_where_it_is_from():
    for data_set in known_data_sets().values():
        assert data_set.has
        assert data_set.source


def test_a_file_in_place_of_a_data_set_s_folder_is_refused(folder):
    data = DataFolder.of_options([f"wikitext-2={folder / 'wikitext-2' / 'train.txt'}"])
    with pytest.raises(ValueError, match=r"train.txt must be a folder"):
        data.resolved("wikitext-2")


def test_plain_texts_that_are_half_there_are_told_by_their_size(folder):
    lines = DataFolder(folder).too_small(["wikitext-2", "wikitext-2/test.txt"])
    assert len(lines) == 3
    assert "train.txt has 10 bytes, usually 10,797,148: it may be incomplete; it is part of WikiText-2" in lines[0]


def test_what_a_reader_said_comes_with_where_the_data_is_from(folder):
    data = DataFolder(folder)
    said = data.explained(f"{folder / 'wikitext-2' / 'train.txt'}: broken", ["wikitext-2", "xsum/pairs.jsonl"])
    assert data.mentioned(said[0], ["wikitext-2", "xsum/pairs.jsonl"]) == ["wikitext-2"]
    assert len(said) == 1
    assert said[0].endswith("word_language_model/data/wikitext-2)")
    assert "XSum" in data.explained("nothing fits", ["xsum/pairs.jsonl"])[0]
