"""Pairs as prompts of decoder-only models: rows, prompts, and a comparison that generates targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, GPT2Config

from nextword.experiments.comparison.all_methods import compare_methods
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks.prompted_pairs import PromptedPairs, PromptedPairsConfig
from nextword.experiments.tasks.tokenizers import END
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.scoring.text_tokens import start_id

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
        task.check(GPT2Config(n_positions=16), tokenizer)


def test_a_start_token_in_the_prefix_is_not_doubled(folder: Path) -> None:
    task = small(folder, source_prefix=f"{END}Read: ")
    tokenizer = task.start.tokenizer()
    ids = task.data.training(tokenizer)[0]["input_ids"]
    assert ids[0] == start_id(tokenizer) != ids[1]


def test_texts_longer_than_the_targets_need_positions_too(folder: Path) -> None:
    generation = {"summaries": 2, "max_tokens": 100}
    task = small(folder, max_source_tokens=8, max_target_tokens=8, generation=generation)
    tokenizer = task.start.tokenizer()
    config = task.start.pretraining(tokenizer, 0).model_config
    assert config.n_positions == 1 + 8 + 1 + 100
    config.n_positions = 60
    with pytest.raises(ValueError, match=r"task\.generation\.max_tokens: must be at most 60"):
        task.check(config, tokenizer)


def test_a_small_model_ends_texts_with_the_end_token_of_its_targets(folder: Path) -> None:
    task = small(folder)
    tokenizer = task.start.tokenizer()
    tokenizer.add_special_tokens({"eos_token": "<|end|>"})
    rows = task.data.training(tokenizer)
    assert tokenizer.bos_token_id != tokenizer.eos_token_id
    assert task.config.start.architecture(tokenizer, 64).eos_token_id == rows[0]["labels"][-1] == tokenizer.eos_token_id


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
    results = compare_methods(config, tmp_path / "out")
    assert [run.method for run in results.runs] == ["softmax", "cache"]
    (samples,) = (tmp_path / "out").rglob("*softmax*/**/*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [line["references"] for line in lines] == [pair(number)["target"] for number in (50, 51, 52)]
    assert [line["source"] for line in lines] == [pair(number)["source"] for number in (50, 51, 52)]
    assert all(len(line["token_ids"]) <= 12 for line in lines)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "start" / "model")
    told = str(pair(50)["source"])
    assert lines[0]["prompt_token_ids"] == tokenizer(f"{told}\n")["input_ids"]
    for system in results.texts["beam 2"].systems:
        assert 0 <= system.values["rouge-l"].value <= 1
        assert system.values["rouge-l"].n == 3
