"""What is imported by what: nobody waits for a library that is not asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from nextword.cli import app

HEAVY = {
    "torch", "transformers", "datasets", "tokenizers", "accelerate", "peft", "safetensors", "huggingface_hub",
    "numpy", "scipy", "sklearn", "matplotlib", "jinja2", "pandas", "pyarrow", "sympy",
}  # fmt: skip


def loaded_by(*scripts: str) -> dict[str, set[str]]:
    """Libraries that each script loads, run one after the other in one new interpreter."""
    interpreter = """
import contextlib, io, json, sys
for script in json.loads(sys.argv[1]):
    before, failed = set(sys.modules), ""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(script, {"__name__": "script"})
    except SystemExit as ended:
        failed = f"exit code {ended.code}" if ended.code else ""
    print(json.dumps([failed, sorted({name.partition(".")[0] for name in set(sys.modules) - before})]))
"""
    command = [sys.executable, "-c", interpreter, json.dumps(scripts)]
    answers = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    loaded = {}
    for script, answer in zip(scripts, answers, strict=True):
        failed, libraries = json.loads(answer)
        assert not failed, f"{script}: {failed}"
        loaded[script] = set(libraries)
    return loaded


def command_line(*words: str) -> str:
    return f"import sys; sys.argv = ['nextword', *{words!r}]; import nextword.cli; nextword.cli.app()"


def commands(group: typer.Typer, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield words
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*words, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, *words, str(inner.name))


def test_help_and_lists_load_nothing_heavy() -> None:
    every = list(commands(app))
    assert ("list", "heads") in every
    assert len(every) > 12
    lists = [words for words in every if len(words) == 2 and words[0] == "list"]
    scripts = ["import nextword", *(command_line(*words, "--help") for words in every)]
    scripts += [command_line(*words) for words in lists]
    found = {script: libraries & HEAVY for script, libraries in loaded_by(*scripts).items()}
    assert not {script: heavy for script, heavy in found.items() if heavy}


def test_a_folder_that_is_not_there_is_told_before_anything_is_loaded() -> None:
    script = f"""
try:
    {command_line("check", "/no/such/folder").replace("; ", chr(10) + "    ")}
except SystemExit as ended:
    assert ended.code == 2, ended.code
"""
    assert not loaded_by(script)[script] & HEAVY


def test_what_asks_no_model_loads_no_torch() -> None:
    names = ("count_tokens", "evaluate", "frequency", "judges", "metrics")
    script = f"import nextword\nfor name in {names}: getattr(nextword, name)"
    assert loaded_by(script)[script] & HEAVY == {"numpy"}


def test_each_import_is_seen_once() -> None:
    found = loaded_by("import wave", "import wave, numpy")
    assert "wave" in found["import wave"]
    assert "numpy" in found["import wave, numpy"]
    assert "wave" not in found["import wave, numpy"]


def test_planted_failure_is_seen() -> None:
    with pytest.raises(AssertionError, match="exit code 2"):
        loaded_by(command_line("no-such-command"))
