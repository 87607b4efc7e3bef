"""What the shell completes is what there is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

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


def test_the_shell_asks_without_torch() -> None:
    ask = (
        "import os, sys\n"
        "words = 'nextword compare --head ca'\n"
        "os.environ.update(_NEXTWORD_COMPLETE='complete_bash', COMP_WORDS=words, COMP_CWORD='3')\n"
        "sys.argv = ['nextword']\n"
        "from nextword.cli import app\n"
        "try:\n    app(prog_name='nextword')\n"
        "except SystemExit:\n    pass\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["cache", "False"]
