"""Measures memory and speed of ``nextword count`` and ``nextword score`` by text size and number of processes.

Texts are synthetic: files with 200 words per line, with the word frequencies of real text (Zipf-Mandelbrot). The
tokenizer knows all words, and the model is a random GPT-2 of one layer, so that reading, tokenizing and summing take as
much of the time as possible. ``mib_peak`` is the peak memory of the command and all its processes (anonymous and shared
pages, not memory-mapped files), sampled ten times per second. ``efficiency`` is the speed relative to one process with
the same text, divided by the number of processes, including start-up. Every process uses one thread. Run nothing else
meanwhile. Rows are appended to ``benchmarks/data/large_data.csv``.

    python benchmarks/large_data.py
    python benchmarks/large_data.py --verb score --megabytes 100 1000 --processes 2
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from options import at_least, parser, settled
from rows import append, surroundings
from texts import law
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from nextword.functional.frequency import TokenCounts
from nextword.results.records import ScoreResults

WORDS = 500
LINE = 200
"""Words of a text."""

EVERY = 0.1
"""Seconds between two looks at the memory."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes the rows."""
    options = parser(__doc__, "large_data", rounds=None)
    options.add_argument("--verb", nargs="+", choices=["count", "score"], default=["count", "score"])
    options.add_argument("--megabytes", type=at_least(1), nargs="+", default=[100])
    options.add_argument("--processes", type=at_least(1), nargs="+", default=[1, 2, 4])
    given = settled(options, argv, megabytes=[1], processes=[1, 2])
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _save_model(folder / "model")
        for megabytes in given.megabytes:
            data = folder / f"{megabytes}.txt"
            _write(data, megabytes * 10**6)
            for verb in given.verb:
                found = {processes: _measured(verb, data, folder, processes) for processes in given.processes}
                assert len({one["result"] for one in found.values()}) == 1, f"{verb}: processes change the numbers"
                rows += [_row(verb, megabytes, processes, found) for processes in found]
            data.unlink()
    for row in rows:
        shown = ("verb", "megabytes", "processes", "s", "mb_per_s", "efficiency", "mib_peak")
        print("  ".join(f"{key} {row[key]}" for key in shown))
    append(given.out, rows)


def _row(verb: str, megabytes: int, processes: int, found: dict[int, dict[str, Any]]) -> dict[str, Any]:
    one, alone = found[processes], found.get(1)
    return {
        "verb": verb, "megabytes": megabytes, "processes": processes, "s": round(one["s"], 1),
        "mb_per_s": round(megabytes / one["s"], 3),
        "efficiency": round(alone["s"] / one["s"] / processes, 3) if alone else "",
        "mib_peak": round(one["peak"] / 2**20), **surroundings(),
    }  # fmt: skip


def _measured(verb: str, data: Path, folder: Path, processes: int) -> dict[str, Any]:
    """Seconds, memory and result of one command."""
    out = folder / f"{verb}-{data.stem}-{processes}"
    model = str(folder / "model")
    words = {
        "count": ["count", str(data), "--tokenizer", model, "--processes", str(processes), "--out", f"{out}.npz"],
        "score": ["score", model, str(data), "--sample-by", "line", "--batch-size", "64", "--processes", str(processes),
                  "--out", str(out)],
    }[verb]  # fmt: skip
    began, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "nextword", *words]
    threads = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **threads}) as running:
        while running.poll() is None:
            peak = max(peak, _held(running.pid))
            time.sleep(EVERY)
    seconds = time.perf_counter() - began
    if running.returncode:
        sys.exit(f"nextword {' '.join(words)} ended with code {running.returncode}")
    if verb == "count":
        result = str(TokenCounts.load(f"{out}.npz").counts.tolist())
    else:
        result = str([one.model_dump() for one in ScoreResults.load(out / "score.json").models])
    return {"s": seconds, "peak": peak, "result": result}


def _held(process: int) -> int:
    """Bytes that a process and all that it started hold; 0 for one that has just ended."""
    kilobytes, waiting = 0, [process]
    while waiting:
        place = Path("/proc") / str(waiting.pop())
        try:
            lines = (place / "status").read_text().splitlines()
            children = " ".join((task / "children").read_text() for task in (place / "task").iterdir())
        except (OSError, ValueError):
            continue
        waiting += [int(child) for child in children.split()]
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 1024 * kilobytes


def _write(path: Path, size: int) -> None:
    chance, weights = np.random.default_rng(0), law(WORDS)
    words = np.array([f"{'long' * (place % 3)}word{place}" for place in range(WORDS)])
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            for row in chance.choice(words, size=(100, LINE), p=weights / weights.sum()):
                written += file.write(" ".join(row) + "\n")


def _save_model(folder: Path) -> None:
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    words = [*names.values(), *(f"{'long' * (place % 3)}word{place}" for place in range(WORDS))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 1, "n_positions": 256, "vocab_size": len(words)}
    config = GPT2Config(**sizes, bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.5)
    GPT2LMHeadModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


if __name__ == "__main__":
    main()
