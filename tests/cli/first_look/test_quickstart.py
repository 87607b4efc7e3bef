"""The quickstart as its user meets it: what is printed, how often is trained, and a real model where there is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nextword.cli import app
from nextword.cli.first_look import real_model
from nextword.cli.first_look.quickstart import untrained_line
from nextword.cli.first_look.real_model import FETCHED, RealModel
from nextword.experiments.comparison.comparison_settings import configured, read
from nextword.results.records import Results
from tests.helpers.opened_models import decoder
from tests.helpers.text_tokenizers import byte_level

SMALL = [
    "task.start.n_embd=16", "task.start.n_layer=1", "task.start.documents=100", "task.start.knows=0",
    "start.training.steps=2", "start.training.warmup_steps=0", "task.train_prompts=8", "task.validation_prompts=4",
    "task.test_prompts=6", "task.rank_rows=20", "training.steps=2", 'methods=["softmax", "cache"]',
]  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no model has been fetched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(real_model, "TOKENS", 3)


def quickstart(*words: str) -> str:
    done = CliRunner().invoke(app, ["quickstart", *words, *SMALL], env={"COLUMNS": "200", "NEXTWORD_DEBUG": "1"})
    assert done.exit_code == 0, done.output
    return done.output


def test_one_seed_is_called_not_enough_and_a_real_model_is_named() -> None:
    printed = quickstart()
    assert re.search("method +both words in the top 2 +first choice right +nats per word", printed)
    assert "One seed is not enough" in printed
    assert "--seeds 3" in printed
    assert "make real-model" in printed
    assert "which is not enough to rank" in Path("quickstart/report.html").read_text(encoding="utf-8")
    assert not Path("quickstart/real-model.json").exists()
    # and seeds are added to what is finished
    printed = quickstart("--seeds", "2")
    assert "4 runs, 2 finished before" in printed
    assert "Means of 2 seeds" in printed
    assert "not enough" not in printed
    runs = Results.load("quickstart/results.json").runs
    assert {(run.method, run.seed) for run in runs} == {
        (name, seed) for name in ("softmax", "cache") for seed in (0, 1)
    }


def test_a_model_that_is_there_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_model, "_text", lambda name: f"The king sat on the {name}.\n\nThe king stood.")
    opened = decoder(byte_level())
    opened.model.backbone.save_pretrained(FETCHED)
    opened.tokenizer.save_pretrained(FETCHED)
    printed = quickstart()
    seen = RealModel.load("quickstart/real-model.json")
    assert f"{seen.nll['alone']:.4f} nats per token alone, {seen.nll['with a cache']:.4f} with a cache" in printed
    assert f"alone: {seen.written['alone']}" in printed
    assert "make real-model" not in printed
    page = Path("quickstart/real-model.html").read_text(encoding="utf-8")
    assert real_model.WITH in page
    monkeypatch.setattr(real_model, "_look", None)
    assert seen.written["with a cache"] in quickstart()


def test_the_recipe_is_one_seed_of_few_methods_on_a_start_that_learns_fast() -> None:
    config = configured(read("quickstart"))
    assert config.seeds == [0]
    assert config.methods[0].title == "softmax"
    assert config.start.training["steps"] * config.start.training["batch_size"] < 2000 * 16  # a round of the task


def test_the_first_numbers_need_no_training() -> None:
    before = torch.random.get_rng_state()
    line = untrained_line()
    assert torch.equal(torch.random.get_rng_state(), before), "the generator of the user was drawn from"
    alone, cached = (float(number) for number in re.findall(r"(\d\.\d)(?: nats|, and)", line))
    assert alone > 6.5
    assert cached < 3.5
    assert line.endswith("and 5 of 5.")
