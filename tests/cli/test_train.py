"""The verb, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nextword.cli import app
from nextword.experiments.training import train_model as finetuning
from tests.helpers.killed_trainings import SMALL, sentences

SHORT = [*SMALL, "training.steps=2"]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, words)], env={"COLUMNS": "200", "NEXTWORD_DEBUG": "0"})


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text("\n".join(sentences(160)), encoding="utf-8")
    return path


def test_a_model_from_options_and_again_from_a_recipe(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--data", text, "--model", "small", "--head", "cache", "--objective", "histalign", "--seed", 3]
    done = run(*options, "--out", out, *SHORT)
    assert done.exit_code == 0, done.output
    assert "step 2 of 2: loss " in done.output
    assert "perplexity: " in done.output
    assert done.output.splitlines()[-1] == f"Model: {out}"
    recipe = tmp_path / "mine.toml"
    recipe.write_text(f'method = "cache/histalign"\nmodel = "small"\nseed = 3\ndata = "{text}"\n', encoding="utf-8")
    again = run(recipe, *SHORT, "--out", out)
    assert again.exit_code == 0, again.output
    assert again.output.startswith("Training had already finished; nothing was changed.")
    assert "step " not in again.output
    other = run(recipe, *SHORT, "--out", out, "seed=4")
    assert (other.exit_code, "seed: 3 there, 4 asked for" in other.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--head", "cache"], "error: model: missing; give --model VALUE"),
        (["--head", "cache"], "task.data: must say what to train on; give --data FILE"),
        (["--data", "nowhere.txt", "--model", "small", "--head", "cache"], "error: task.data: 'nowhere.txt' does not"),
        (["nowhere.toml"], "error: nowhere.toml: no such recipe"),
        (["a.toml", "b.toml"], "error: 'b.toml': only the first word names a recipe"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    refused = run(*words, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert message in refused.output
    assert "Traceback" not in refused.output


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(finetuning, "measured_on_test_part", interrupted)
    out = tmp_path / "out"
    done = run("--data", text, "--model", "small", "--head", "softmax", "--out", out, *SHORT)
    assert done.exit_code == 130
    assert f"interrupted: nothing is lost in {out} (checkpoint-2 is kept)" in done.output
    assert "To resume: nextword" in done.output


def test_a_tracker_that_is_not_there(text: Path, tmp_path: Path) -> None:
    words = ["--data", text, "--model", "small", "--head", "softmax", "--out", tmp_path / "out"]
    refused = run(*words, "--report-to", "tensorbord", *SHORT)
    assert (refused.exit_code, "Did you mean 'tensorboard'?" in refused.output) == (2, True)
