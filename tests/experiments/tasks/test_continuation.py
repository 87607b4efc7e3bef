from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config

from nextword.experiments.comparison.all_methods import compare
from nextword.experiments.comparison.comparison_settings import configured
from nextword.experiments.tasks import Task, registry
from nextword.settings.config import validated
from tests.helpers.fake_models import FakeModel
from tests.helpers.real_data import real_data
from tests.helpers.token_states import summed_nll, token_model

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SMALL = {
    "vocabulary": 300, "block": 24, "window": 16, "stride": 8, "tuning_tokens": 64, "batch_size": 4,
    "validation_share": 0.2, "test_share": 0.2, "start": {"n_layer": 1, "n_embd": 16, "n_head": 2, "steps": 100},
}  # fmt: skip
WRITTEN = {"prompts": 8, "prefix": 4, "continuation": 12, "metrics": ["diversity", "rep", "likelihood"]}


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    draw = random.Random(0)
    rows = [{"story": " ".join(draw.choices(WORDS, k=draw.randrange(5, 20)))} for _ in range(80)]
    path = tmp_path / "stories.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def small(data: Path, **settings: object) -> Task:
    task = registry.get("continue")
    return task(validated(task.Config, {"data": str(data), **SMALL, **settings}))


def test_uniform_model_has_the_perplexity_of_its_vocabulary(stories: Path) -> None:
    task = small(stories, test_tokens=None)
    tokenizer = task.start.tokenizer()
    model = FakeModel(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)))
    metrics = task.measures.evaluate(model, tokenizer).metrics
    tests = task.data.stories.test
    tokens = sum(len(tokenizer(story)["input_ids"]) + 1 for story in tests)
    assert metrics["perplexity"].value == pytest.approx(len(tokenizer))
    assert metrics["nll"].n == tokens  # each once, the ends too
    size = sum(len(story.encode()) for story in tests)
    assert metrics["bits_per_byte"].value == pytest.approx(tokens * math.log2(len(tokenizer)) / size)


def test_a_long_memory_sees_all_of_a_story_and_nothing_of_another(stories: Path) -> None:
    task = small(stories, test_tokens=None)
    tokenizer = task.start.tokenizer()
    window, long = (token_model(len(tokenizer), head) for head in ("cache", "cache:long=1000"))
    found = [task.measures.evaluate(model, tokenizer).metrics["nll"] for model in (window, long)]
    border = tokenizer.eos_token_id
    told = [[border, *tokenizer(story)["input_ids"], border] for story in task.data.stories.test]
    assert max(map(len, told)) > 17, "one is longer than a window"
    assert found[1].value * found[1].n == pytest.approx(sum(summed_nll(window, one) for one in told), abs=1e-8)
    assert abs(found[0].value - found[1].value) > 1e-3


def test_training_rows_are_blocks_of_all_stories(stories: Path) -> None:
    task = small(stories)
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert {len(row) for row in rows["input_ids"]} == {24}
    joined = [token for row in rows["input_ids"] for token in row]
    told = tokenizer.decode(joined).split(tokenizer.eos_token)
    assert told[:3] == ["", *task.data.stories.train[:2]]
    assert rows["labels"][0] == rows["input_ids"][0]
    described = task.data.describe()
    assert described["train_stories"] + described["validation_stories"] + described["test_stories"] == 80


def test_a_start_must_hold_a_prompt_and_its_text(stories: Path) -> None:
    task = small(stories, generation={**WRITTEN, "continuation": 40})
    tokenizer = task.start.tokenizer()
    assert task.start.pretraining(tokenizer, 0).model_config.n_positions == 45
    task.check(GPT2Config(n_positions=45), tokenizer)
    with pytest.raises(ValueError, match=r"generation:.*continuation"):
        task.check(GPT2Config(n_positions=44), tokenizer)
    assert small(stories, generation={"prompts": 0}).writes is None
    with pytest.raises(ValueError, match=r"task\.stride"):
        small(stories, stride=17)


@pytest.mark.slow
def test_methods_write_texts_that_end(stories: Path, tmp_path: Path) -> None:
    recipe = {
        "task": {"name": "continue", "data": str(stories), **SMALL, "generation": {**WRITTEN, "draws": [0, 1, 42]}},
        "methods": ["softmax", "cache"], "seeds": [0], "training": {"steps": 5},
    }  # fmt: skip
    results = compare(configured(recipe), tmp_path / "out")
    assert list(results.texts) == ["top-p 0.95"]
    (softmax, cache) = results.texts["top-p 0.95"].systems
    assert [len(system.files) for system in (softmax, cache)] == [3, 3]
    task = small(stories)
    tokenizer = task.start.tokenizer()
    lines = [json.loads(line) for line in (tmp_path / "out" / results.runs[0].samples["top-p 0.95"][0]).open()]
    assert len(lines) == 8
    longer = [story for story in task.data.stories.test if len(tokenizer(story)["input_ids"]) > 4]
    for line, story in zip(lines, longer, strict=False):
        ids = tokenizer(story)["input_ids"]
        assert line["prompt_token_ids"] == ids[:4]
        assert line["reference_token_ids"] == [ids[4:16]]
        assert story.startswith(line["prompt"] + line["references"][0])
        assert line["target_token_ids"] == ids[4:16] + [tokenizer.eos_token_id] * (len(ids) <= 16)
        assert len(line["token_ids"]) <= 12
        assert tokenizer.eos_token_id not in line["token_ids"]
    files = [file for run in results.runs for file in run.samples["top-p 0.95"]]
    texts = [json.loads(line)["token_ids"] for file in files for line in (tmp_path / "out" / file).open()]
    assert min(map(len, texts)) < max(map(len, texts)) == 12
    human = results.texts["top-p 0.95"].human
    assert human is not None
    assert human.samples == 8


@pytest.mark.slow
def test_mauve_may_read_the_states_of_the_start(stories: Path, tmp_path: Path) -> None:
    pytest.importorskip("mauve")
    metrics = [{"metric": "mauve", "model": "start", "buckets": 2}]
    recipe = {
        "task": {"name": "continue", "data": str(stories), **SMALL, "generation": {**WRITTEN, "metrics": metrics}},
        "methods": ["softmax"], "seeds": [0], "training": {"steps": 2},
    }  # fmt: skip
    found = compare(configured(recipe), tmp_path / "out").texts["top-p 0.95"]
    assert found.settings["metrics"][0]["model"] == "start/model"
    assert 0 < found.systems[0].values["mauve"].value <= 1


def test_writingprompts() -> None:
    data = real_data("writingprompts/prompt_story.jsonl")
    task = small(data, split_field="split", generation={"prompts": 100})
    told = task.data.describe()
    assert (told["train_stories"] + told["validation_stories"], told["test_stories"]) == (502, 100)
    assert told["leak_stories"] == 0
