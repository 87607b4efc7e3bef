"""What is imported by what: nobody waits for a library that is not asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nextword.cli.parts.commands import VERBS, Verb

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


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield ()
    for name, (place, line) in VERBS.items():
        yield (name,)
        for inner in getattr(Verb(name, place, line).loaded(), "commands", ()):
            yield name, inner


def heavy_by(*scripts: str) -> dict[str, set[str]]:
    """The heavy libraries that scripts load, by those that load any."""
    found = {script: libraries & HEAVY for script, libraries in loaded_by(*scripts).items()}
    return {script: heavy for script, heavy in found.items() if heavy}


def test_help_and_lists_load_nothing_heavy() -> None:
    every = list(commands())
    assert ("list", "heads") in every
    assert ("datastore", "build") in every
    assert len(every) > 20
    lists = [words for words in every if len(words) == 2 and words[0] == "list"]
    scripts = ["import nextword", *(command_line(*words, "--help") for words in every)]
    scripts += [command_line(*words) for words in lists]
    assert not heavy_by(*scripts)


def test_the_list_of_commands_imports_none_of_them() -> None:
    script = f"{command_line('--help')}".replace("nextword.cli.app()", "run()")
    run = "def run():\n    try: nextword.cli.app()\n    except SystemExit: pass\n"
    asked = f"{run}{script}\nprint(*(name for name in sys.modules if name.startswith('nextword.')), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    modules = set(done.stderr.split())
    assert "nextword.cli.parts.commands" in modules
    assert not modules & {place.partition(":")[0] for place, _ in VERBS.values()}


def test_the_list_has_one_line_for_each_command() -> None:
    lines = subprocess.run([sys.executable, "-m", "nextword", "--help"], check=True, capture_output=True, text=True)
    shown = [" ".join(line.strip(" │").split()) for line in lines.stdout.splitlines()]
    for name, (place, line) in VERBS.items():
        assert f"{name} {line}" in shown
        assert Verb(name, place, line).loaded().help, name


WRONG = [
    ("traain",), ("train", "--heead", "cache"), ("score",), ("compare", "quickstrat"), ("compare", "quickstart", "x"),
    ("list", "headds"), ("quickstart", "--seeds", "0"), ("check", "/no/such/folder"), ("report", "/no/such/folder"),
]  # fmt: skip


def test_an_error_of_typing_loads_nothing_heavy() -> None:
    """Nor does a folder that is not there."""

    def wrong(*words: str) -> str:
        run = command_line(*words).replace("; ", "\n    ")
        return f"try:\n    {run}\nexcept SystemExit as ended:\n    assert ended.code == 2, ended.code"

    assert not heavy_by(*(wrong(*words) for words in WRONG))


def test_what_asks_no_model_loads_no_torch() -> None:
    names = ("count_tokens", "evaluate", "frequency", "judges", "metrics")
    script = f"import nextword\nfor name in {names}: getattr(nextword, name)"
    assert loaded_by(script)[script] & HEAVY == {"numpy"}


def test_old_names_cost_no_import() -> None:
    """``importlib.abc`` brings ``importlib.resources``, zip files and more: half the time of ``import nextword``."""
    assert not {"zipfile", "tempfile"} & loaded_by("import nextword")["import nextword"]


def test_each_import_is_seen_once() -> None:
    found = loaded_by("import wave", "import wave, numpy")
    assert "wave" in found["import wave"]
    assert "numpy" in found["import wave, numpy"]
    assert "wave" not in found["import wave, numpy"]


def test_planted_failure_is_seen() -> None:
    with pytest.raises(AssertionError, match="exit code 2"):
        loaded_by(command_line("no-such-command"))
