from __future__ import annotations

import json
from pathlib import Path

import pytest

from nextword.runtime.corpora.row_files import json_lines


def test_a_list_is_read_as_lines_are(tmp_path: Path) -> None:
    rows = [{"text": "a\n"}, {"text": "b", "more": [1]}]
    for content in (json.dumps(rows), json.dumps(rows, indent=2), "\n".join(map(json.dumps, rows))):
        path = tmp_path / "a.json"
        path.write_text(content)
        assert [(line.number, line.content) for line in json_lines(path)] == list(enumerate(rows, 1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (r'{"text": "ok"}' "\n" r'{"text": "bad \ud83d end"}', r"a.jsonl, line 2: must be text of whole .*, \\ud83d, "),
        (r'{"text": "\uDE00"}', r"line 1: must be text of whole characters \(half of one, \\ude00, given\)"),
        (r'{"deep": [{"\ud83d": 1}]}', r"line 1: must be text of whole characters"),
        (r'[{"text": "a"}, {"text": "\ud83d"}]', r"a.jsonl, entry 2: must be text of whole characters"),
        ('{"text": 1}\r{"text": 2}\r', r"line 1: not JSON .* Its line ends are single carriage returns; convert them"),
        ('[{"text": 1, "text": 2}]', r"key 'text' comes twice"),
    ],
)
def test_faults_are_named(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        list(json_lines(path))


def test_two_halves_are_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(r'{"text": "\ud83d\ude00", "code": "\\ud83d"}')
    (line,) = json_lines(path)
    assert line.content == {"text": "😀", "code": r"\ud83d"}
