"""Train a model on the text in this script, score the model, generate with it, and write a page about its predictions.

The script prints and runs four commands in a new folder:

    python examples/text_to_page.py
    python examples/text_to_page.py runs/example 400
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from nextword.cli import app
from nextword.experiments.tasks.ambiguous_prompts import documents
from nextword.experiments.tasks.ambiguous_words import embedded

PROMPT = "The list says the king, the queen, the prince. I read it again:"


def main(folder: str | Path = "runs/example", steps: int = 300) -> None:
    """Trains a cache on invented stories, and a softmax to hold it against, in about two minutes on two cores."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    book, chapter = folder / "book.txt", folder / "chapter.txt"
    book.write_text("\n".join(documents(embedded(), 1500, seed=0)) + "\n", encoding="utf-8")
    chapter.write_text("\n".join(documents(embedded(), 12, seed=1)) + "\n", encoding="utf-8")

    for name, method in (("softmax", "softmax"), ("cache", "cache/histalign")):
        options = ["--model", "small", "--method", method, "--out", folder / name]
        nextword("train", "--data", book, *options, f"training.steps={steps}")
    nextword("score", folder / "softmax", folder / "cache", chapter)
    writing = ["--decoding", "greedy", "--decoding", "top-p:0.9", "--max-new-tokens", 20, "--sources"]
    nextword("generate", folder / "cache", "--prompt", PROMPT, *writing, "--out", folder / "texts")
    nextword("inspect", folder / "softmax", folder / "cache", "--text", chapter, "--out", folder / "page.html")


def nextword(*words: object) -> None:
    """Prints a command and runs it."""
    command = [str(word) for word in words]
    print(f"\n$ {shlex.join(['nextword', *command])}", flush=True)
    code = app(command, standalone_mode=False)
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
