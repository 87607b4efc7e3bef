from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nextword.experiments.tasks.continuation import StoriesConfig, StoryParts, read_stories
from tests.helpers.real_data import real_data

READING = StoriesConfig(data="", validation_share=0.1, test_share=0.2)
BY_FIELD = StoriesConfig(data="", split_field="split", validation_share=0.1, test_share=0.2)


def json_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sizes(parts: StoryParts) -> tuple[int, int, int]:
    return len(parts.train), len(parts.validation), len(parts.test)


def test_one_file_is_dealt_out_by_a_hash_of_the_story(tmp_path: Path) -> None:
    rows = [{"story": f"Story {number}\n\nends."} for number in range(300)]
    parts = read_stories(json_file(tmp_path / "all.jsonl", rows), READING)
    train, validation, test = sizes(parts)
    assert train + validation + test == 300
    assert 10 < validation < 50
    assert 40 < test < 80
    assert "Story 0\n\nends." in parts.train + parts.validation + parts.test
    again = read_stories(json_file(tmp_path / "more.jsonl", [*rows[::-1], *rows[:9]]), READING)
    assert set(again.test) == set(parts.test)
    assert again.sha256 != parts.sha256
    assert parts.split == "by a hash of the story, 70/10/20 %"


def test_parts_that_the_data_names(tmp_path: Path) -> None:
    names = ["train"] * 60 + ["dev", "testing", "testing"]
    rows = [{"story": f"s {number}", "split": name} for number, name in enumerate(names)]
    parts = read_stories(json_file(tmp_path / "all.jsonl", [*rows, {"story": " \n", "split": "train"}]), BY_FIELD)
    assert (*sizes(parts), parts.empty) == (60, 1, 2, 1)
    assert parts.test == ["s 61", "s 62"]
    assert parts.split == "parts named in the data"


def test_without_validation_some_training_stories_validate(tmp_path: Path) -> None:
    rows = [{"story": f"s {number}", "split": "train" if number % 2 else "test"} for number in range(200)]
    parts = read_stories(json_file(tmp_path / "all.jsonl", rows), BY_FIELD)
    train, validation, test = sizes(parts)
    assert (train + validation, test) == (100, 100)
    assert 2 < validation < 25
    assert "10 % of the training stories for validation" in parts.split


def test_a_folder_of_json_lines(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        json_file(tmp_path / f"{name}.jsonl", [{"story": name}])
    parts = read_stories(tmp_path, READING)
    assert (parts.train, parts.validation, parts.test) == (["train"], ["valid"], ["test"])


def test_the_files_of_writingprompts(tmp_path: Path) -> None:
    line = "Once . <newline> <newline> `` Hi , '' she said . <newline> The end .\n"
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.wp_target").write_text(line + f"{name} .\n\n", encoding="utf-8")
        (tmp_path / f"{name}.wp_source").write_text("[ WP ] A dragon .\n", encoding="utf-8")
    parts = read_stories(tmp_path, READING)
    assert parts.test == ["Once .\n\n`` Hi , '' she said .\nThe end .", "test ."]
    assert (*sizes(parts), parts.empty) == (2, 2, 2, 3)


@pytest.mark.parametrize(
    ("text", "stories"),
    [("a b\nc d\n", ["a b", "c d"]), ("a b\nmore\n\n\nc d\n", ["a b\nmore", "c d"])],
    ids=["lines", "blocks"],
)
def test_plain_text_has_a_story_a_line_or_between_blank_lines(tmp_path: Path, text: str, stories: list[str]) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(text)
    assert read_stories(tmp_path, READING).test == stories


@pytest.mark.parametrize(
    ("rows", "reading", "message"),
    [
        ([{"text": "a"}], READING, r"all\.jsonl', line 1: no field 'story'; its fields are text\. .*task\.story_field"),
        ([{"story": 3}], READING, r"line 1: field 'story' must be text \(3 given\)"),
        ([{"story": "a"}], BY_FIELD, r"line 1: no field 'split'; its fields are story\. .*task\.split_field"),
        ([{"story": "a", "split": "part 1"}], BY_FIELD, r"line 1: field 'split' is 'part 1'; known splits: train"),
        ([{"story": "a"}], READING, r"gives no \w+ stories \(.*hash of the story.*\)\. Give more stories"),
        ([{"story": "a", "split": "train"}], BY_FIELD, r"gives no \w+ stories \(1 train, 0 validation, 0 test"),
        ([{"story": " "}], READING, r"gives no train stories \(0 train, 0 validation, 0 test"),
    ],
)
def test_wrong_data(tmp_path: Path, rows: list[dict[str, Any]], reading: StoriesConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_stories(json_file(tmp_path / "all.jsonl", rows), reading)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"task\.data:.*exist\. Give a \.jsonl"):
        read_stories(tmp_path / "nowhere", READING)
    with pytest.raises(ValueError, match=r"stories .*Give a \.jsonl"):
        read_stories(tmp_path, READING)
    json_file(tmp_path / "train.jsonl", [{"story": "a"}])
    with pytest.raises(ValueError, match=r"stories \(1 train"):
        read_stories(tmp_path, READING)


def test_writingprompts_in_json_lines() -> None:
    parts = read_stories(real_data("writingprompts/prompt_story.jsonl"), BY_FIELD)
    assert (len(parts.train) + len(parts.validation), len(parts.test), parts.empty) == (502, 100, 0)
