"""Messages name options on the command line, and arguments in Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import nextword as nw
from nextword.cli import app
from nextword.settings.setting_names import either, named, of_command
from tests.helpers.running_server import POSITIONS, small_model


def said_by(*words: str) -> str:
    """The error of a command."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model."""
    opened, out = small_model("softmax"), tmp_path_factory.mktemp("model")
    opened.model.save_pretrained(out)
    opened.tokenizer.save_pretrained(out)
    return str(out)


@pytest.mark.parametrize(
    ("settings", "options", "in_python", "on_command_line"),
    [
        (
            {"max_new_tokens": POSITIONS}, ["--max-new-tokens", str(POSITIONS)],
            "set max_new_tokens to at most 95", "set --max-new-tokens to at most 95",
        ),
        (
            {"min_new_tokens": 9, "max_new_tokens": 5}, ["--min-new-tokens", "9", "--max-new-tokens", "5"],
            "min_new_tokens: must be at most max_new_tokens", "--min-new-tokens: must be at most --max-new-tokens",
        ),
        (
            {"draft": "placs"}, ["--draft", "placs"],
            "draft: must be head, prompt or", "--draft: must be head, prompt or",
        ),
        (
            {"arguments": {"top_q": 1}}, ["--set", "top_q=1"],
            "arguments['top_q']: generate knows no such argument", "--set top_q: generate knows no such argument",
        ),
        (
            {"arguments": {"max_length": 9}}, ["--set", "max_length=9"],
            "has a setting of its own; give max_new_tokens", "has a setting of its own; give --max-new-tokens",
        ),
    ],
)  # fmt: skip
def test_what_is_asked_of_generate(
    folder: str, settings: dict[str, Any], options: list[str], in_python: str, on_command_line: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(in_python)) as caught:
        nw.generate(folder, prompts="x", **settings)

    assert "--" not in str(caught.value)
    assert on_command_line in said_by("generate", folder, "--prompt", "x", *options)


def test_a_missing_setting_is_asked_for_as_the_option_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The king sat.\n", encoding="utf-8")
    asked = ("train", "--data", str(tmp_path / "text.txt"), "--model", "small", "--out", str(tmp_path / "out"))
    assert "head: missing; give --head VALUE." in said_by(*asked)
    assert "task.data: missing; give task.data=VALUE." in said_by(
        "compare", "--task", "lm", "--head", "softmax", "--out", str(tmp_path / "out")
    )
    with pytest.raises(ValueError, match="head: missing; give head=VALUE"):
        nw.train({"data": str(tmp_path / "text.txt"), "model": "small"}, tmp_path / "out")


def test_own_parts_are_spoken_of_where_no_name_is_near(folder: str, tmp_path: Path) -> None:
    near = said_by("attach", folder, "--head", "cahce", "--out", str(tmp_path / "out"))
    assert "Did you mean 'cache'?" in near
    assert "--import" not in near
    far = said_by("attach", folder, "--head", "zzzzzz", "--out", str(tmp_path / "out"))
    assert "once its module was imported: `--import MODULE` before the command." in far
    with pytest.raises(ValueError, match="`import MODULE`") as caught:
        nw.attach(small_model("softmax").model.backbone, "zzzzzz")
    assert "--import" not in str(caught.value)


def test_an_option_that_may_be_repeated_is_in_the_singular() -> None:
    with of_command(lambda: {"seed": "--seed"}):
        assert named("seeds") == "--seed"
        assert either("--seed 3", "seeds=[3]") == "--seed 3"
    assert (named("seeds"), either("--seed 3", "seeds=[3]")) == ("seeds", "seeds=[3]")
