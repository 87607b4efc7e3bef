from __future__ import annotations

import json

import pytest
from datasets import Dataset

from nextword.runtime.corpora.row_files import table_rows

ROWS = [{"dialogue": "A: NA", "summary": "null"}, {"dialogue": 'B: "1,5"\nC: x', "summary": "t"}]


def read(path):
    return [row.content for row in table_rows(path, "task.data")]


def test_the_same_rows_from_every_kind_of_file(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(ROWS, indent=1))
    (tmp_path / "b.json").write_text(f"\n{json.dumps(ROWS)}\n")
    (tmp_path / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n\n" for row in ROWS))
    Dataset.from_list(ROWS).to_parquet(tmp_path / "d.parquet")
    Dataset.from_list(ROWS).to_csv(tmp_path / "e.csv", index=False)
    for name in ("a.json", "b.json", "c.jsonl", "d.parquet", "e.csv"):
        assert read(tmp_path / name) == ROWS, name


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '[{"a": 1}, {"a"', r"a\.json': not a whole JSON list \(.*\); download it again"),
        ("a.json", '[{"a": 1}, 2]', r"a\.json', entry 2: must be a JSON object \(2 given\)"),
        ("a.json", "[]", r"a\.json' is empty"),
        ("a.jsonl", "", r"a\.jsonl' is empty"),
        ("a.parquet", "PAR1 and no more", r"task\.data"),
    ],
)
def test_half_a_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)
