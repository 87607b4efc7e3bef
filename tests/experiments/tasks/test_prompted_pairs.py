"""Pairs as prompts of decoder-only models: rows, prompts, and a comparison that generates targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks.prompted_pairs import PromptedPairs, PromptedPairsConfig
from nextword.functional.padding import IGNORED_LABEL

NAMES, PLACES = ["Ann", "Bob", "Cyd", "Dan", "Eve"], ["Rome", "Oslo", "Lima"]
PARTS = {"train": range(40), "validation": range(40, 50), "test": range(50, 60)}


def pair(number: int) -> dict[str, object]:
    who, place = NAMES[number % 5], PLACES[number % 3]
    return {"source": f"Day {number}. {who} went to {place}.", "target": [f"{who} was in {place}.", f"In {place}."]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, numbers in PARTS.items():
        (tmp_path / f"{part}.jsonl").write_text("".join(f"{json.dumps(pair(number))}\n" for number in numbers))
    return tmp_path


def small(folder: Path, **settings: object) -> PromptedPairs:
    return PromptedPairs(
        PromptedPairsConfig.model_validate(
            {"data": str(folder), "target_field": "target[]", "vocabulary": 300, **settings}
        )
    )


def test_a_row_is_the_prompt_and_one_of_the_targets(folder: Path) -> None:
    task = small(folder, source_prefix="Read: ", separator=" So: ")
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert len(rows) == 80
    first, second = rows[0], rows[1]
    counted = [token for token in first["labels"] if token != IGNORED_LABEL]
    prompt = first["input_ids"][: -len(counted)]
    told = str(pair(0)["source"])
    assert (
        prompt[1:] == tokenizer("Read: ")["input_ids"] + tokenizer(told)["input_ids"] + tokenizer(" So: ")["input_ids"]
    )
    assert tokenizer.decode(counted[:-1]) == "Ann was in Rome."
    assert first["input_ids"][-1] == counted[-1] == tokenizer.eos_token_id
    assert second["input_ids"][: len(prompt)] == prompt
    assert tokenizer.decode([token for token in second["labels"] if token != IGNORED_LABEL][:-1]) == "In Rome."


def test_a_source_is_cut_and_what_stands_around_it_is_not(folder: Path) -> None:
    task = small(folder, source_prefix="Read: ", separator=" So: ", max_source_tokens=8)
    tokenizer = task.start.tokenizer()
    rows = task.data.validation(tokenizer)
    kept = tokenizer(str(pair(40)["source"]))["input_ids"][:8]
    around = [tokenizer(text)["input_ids"] for text in ("Read: ", " So: ")]
    prompt = [token for token, label in zip(rows[0]["input_ids"], rows[0]["labels"], strict=True) if label < 0]
    assert prompt[1:] == [*around[0], *kept, *around[1]]
    with pytest.raises(ValueError, match=r"^task\.source_prefix \+ task\.max_source_tokens .* must be at most 16"):
        task.check(task.start.architecture(tokenizer).__class__(n_positions=16), tokenizer)


def test_a_training_generates_nothing_unless_asked(folder: Path) -> None:
    assert small(folder).writes is None


def test_a_comparison_writes_texts_after_the_sources_and_measures_them(folder: Path, tmp_path: Path) -> None:
    settings = [
        f"task.data={json.dumps(str(folder))}", "task.target_field='target[]'", "task.vocabulary=300",
        "task.max_target_tokens=12", "task.start.steps=2",
        "task.start.n_layer=1", "task.start.n_embd=16", "task.start.n_head=2", "training.steps=1",
        "training.batch_size=4", "task.generation.summaries=3", "task.generation.decodings=['beam:2']",
        "task.generation.metrics=['rouge:l', {metric='entities', pipeline='capitals'}, 'copying']",
    ]  # fmt: skip
    config = configured({"task": "prompted-pairs", "methods": ["softmax", "cache"], "seeds": [0]}, settings)
    results = compare(config, tmp_path / "out")
    assert [run.method for run in results.runs] == ["softmax", "cache"]
    (samples,) = (tmp_path / "out").rglob("*softmax*/**/*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [line["references"] for line in lines] == [pair(number)["target"] for number in (50, 51, 52)]
    assert [line["source"] for line in lines] == [pair(number)["source"] for number in (50, 51, 52)]
    assert all(len(line["token_ids"]) <= 12 for line in lines)
    texts = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "rouge-l" in json.dumps(texts)
