from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nextword as nw
from nextword.results.records import EvaluationResults
from tests.helpers.word_models import WORDS


def written(folder: Path, name: str, place: int, **changes: Any) -> str:
    """Six samples of a system, each with what most metrics read."""
    lines = []
    for number in range(6):
        words = [WORDS[(place * number + step * (place + 2)) % len(WORDS)] for step in range(12)]
        sample = {
            "prompt": f"prompt {number}",
            "text": " ".join(words),
            "references": [" ".join(WORDS[number : number + 8])],
            "log_probs": [-0.5 * (place + 1), -1.0 - number],
            "target_bytes": 9,
        }
        lines.append(json.dumps(sample | changes) + "\n")
    path = folder / f"{name}.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def numbers(results: EvaluationResults) -> dict[str, Any]:
    """All that was measured."""
    return results.model_dump(include={"measures", "systems", "human", "left_out", "tests", "untested", "wins"})


@pytest.mark.slow
def test_processes_measure_the_same(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    systems = {
        name: [written(tmp_path, f"{name}{seed}", 1 + seed + 2 * place) for seed in range(2)]
        for place, name in enumerate(names)
    }
    given = {"systems": systems, "metrics": ["all"], "resamples": 200, "permutations": 200}
    told: list[tuple[str, int, int]] = []
    here = nw.evaluate(given)
    shared = nw.evaluate({**given, "processes": 2}, watch=lambda *words: told.append(words))
    assert numbers(shared) == numbers(here)  # to the last bit
    assert len(here.measures) > 20
    assert here.tests
    assert here.human is not None
    assert [one for one in told if one[0] == "files"] == [("files", done, 6) for done in range(1, 7)]


@pytest.mark.slow
def test_what_is_wrong_in_a_process_is_said_as_here(tmp_path: Path) -> None:
    systems = {"a": [written(tmp_path, "a", 1)], "b": [written(tmp_path, "b", 2, prompt="another")]}
    for processes in (None, 2):
        with pytest.raises(ValueError, match=r"b\.jsonl, line"):
            nw.evaluate({"systems": systems, "metrics": ["distinct:1"], "processes": processes})
    path = Path(systems["b"][0])
    path.write_text(path.read_text(encoding="utf-8") + '{"prompt": "x"}\n', encoding="utf-8")
    for processes in (None, 2):
        with pytest.raises(ValueError, match=r"^[^\n]*b\.jsonl, line 7[^\n]*$"):
            nw.evaluate({"systems": systems, "metrics": ["distinct:1"], "processes": processes})
