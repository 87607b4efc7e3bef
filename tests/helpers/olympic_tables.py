"""Little tables in LogicNLG's files for the tests of the task ``table2text``, and the task on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nextword.experiments.tasks.table2text import Table2TextConfig, TableToText
from nextword.settings.config import validated

CITIES = ["athens", "paris", "london", "rome", "oslo", "lima"]
SENTENCES = ["{city} had the Games with the most seats", "the Games  of {year} were in {city}", "{city} came first"]


def write_logicnlg(folder: Path, train: int = 6, validation: int = 2, test: int = 3) -> Path:
    """Tables of four rows, with three sentences each."""
    (folder / "all_csv").mkdir()
    number = 0
    for part, count in {"train": train, "val": validation, "test": test}.items():
        content = {}
        for _ in range(count):
            rows = [f"{1896 + 4 * (number + row)}#{CITIES[(number + row) % 6]}#{100 * row + 7}" for row in range(4)]
            (folder / "all_csv" / f"{number}.csv").write_text("\n".join(["year#city#seats", *rows]) + "\n")
            texts = [one.format(city=CITIES[number % 6].capitalize(), year=1896 + 4 * number) for one in SENTENCES]
            columns = [[1, 2], [0, 1], [1]]
            title = f"games {number}"
            content[f"{number}.csv"] = [[text, of, title, ""] for text, of in zip(texts, columns, strict=True)]
            number += 1
        (folder / f"{part}_lm.json").write_text(json.dumps(content))
    return folder


def small(data: Path, **settings: Any) -> TableToText:
    given = {
        "data": str(data), "vocabulary": 300, "batch_size": 4, "max_source_tokens": 120, "max_target_tokens": 30,
        "start": {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2},
        "generation": {"batch_size": 4, "decodings": ["beam:2"]}, **settings,
    }  # fmt: skip
    return TableToText(validated(Table2TextConfig, given, "task"))
