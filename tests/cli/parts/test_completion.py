"""What the shell completes is what there is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import nextword
from nextword.cli.parts import completion


@pytest.mark.parametrize(
    ("complete", "incomplete", "expected"),
    [
        (completion.complete_head, "ca", ["cache"]),
        (completion.complete_objective, "hist", ["histalign"]),
        (completion.complete_conditioner, "ber", ["bergpt"]),
        (completion.complete_method, "cache/hi", ["cache/histalign"]),
        (completion.complete_method, "softmax/mle/d", ["softmax/mle/dau"]),
        (completion.complete_method, "softmax/mle/dau/", []),
        (completion.complete_metric, "distinct,self", ["distinct,self-bleu"]),
        (completion.complete_task, "amb", ["ambiguous"]),
        (completion.complete_recipe, "quick", ["quickstart"]),
        (completion.complete_table, "f2-softmax/table-2", ["f2-softmax/table-2a", "f2-softmax/table-2b"]),
        (completion.complete_head, "nosuch", []),
    ],
)
def test_names_are_completed(complete: Callable[[str], list[str]], incomplete: str, expected: list[str]) -> None:
    assert complete(incomplete) == expected


SHIM = "from nextword.cli import app; app(prog_name='nextword')"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose ``nextword`` is this one, and where no shell has been taught anything."""
    command = tmp_path / "bin" / "nextword"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{SHIM}" "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(nextword.__file__).parents[1]))
    return tmp_path


@pytest.mark.slow
def test_bash_learns_it(home: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    subprocess.run(["nextword", "--install-completion", "bash"], check=True, capture_output=True)
    ask = """
        source ~/.bashrc
        COMP_WORDS=(nextword reproduce histalign/table-1); COMP_CWORD=2
        _nextword_completion nextword
        echo "${COMPREPLY[*]}"
    """
    run = subprocess.run([bash, "-c", ask], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["histalign/table-1"]


OPTIONS = {
    "compare --task amb": "ambiguous",
    "compare --head cache/hi": "cache/histalign",
    "compare wikitext2-": "wikitext2-heads",
    "train --head mo": "mos",
    "train --objective fa": "face",
    "train --conditioner ber": "bergpt",
    "train --method cache/hi": "cache/histalign",
    "evaluate --metrics self": "self-bleu",
    "reproduce f2-softmax/table-1a": "f2-softmax/table-1a",
}


@pytest.mark.slow
def test_the_shell_asks_without_torch() -> None:
    ask = (
        "import os, sys\n"
        "from nextword.cli import app\n"
        f"for line in {list(OPTIONS)}:\n"
        "    words = ['nextword', *line.split()]\n"
        "    os.environ.update(\n"
        "        _NEXTWORD_COMPLETE='complete_bash', COMP_WORDS=' '.join(words), COMP_CWORD=str(len(words) - 1)\n"
        "    )\n"
        "    try:\n        app([], prog_name='nextword')\n"
        "    except SystemExit:\n        pass\n"
        "print(*{'torch', 'transformers', 'numpy', 'datasets'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    *answers, heavy = run.stdout.splitlines()
    assert answers == list(OPTIONS.values())
    assert heavy == ""
