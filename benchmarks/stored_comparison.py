"""Ten heads compared with three seeds: every training through the model, and all from one store of states.

    python benchmarks/stored_comparison.py models/smollm2-135m DATA/wikitext-2

Takes about 10 minutes. Each comparison is a process of its own with one thread; counted are its processor seconds, the
build of the store among them. Adds its section to docs/records/stored-states.json, and writes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu import RECORDS, save

import nextword as nw
from nextword.results.records import Environment
from nextword.runtime.progress import Watcher

HEADS = [
    "softmax+proj", "softmax+mi", "softmax+cpr:20,100", "softmax+cpr:20,100+mi", "mos:2", "mos:3", "pg", "ps",
    "copynet", "sigsoftmax",
]  # fmt: skip
LENGTH = 256
THROUGH, STORED = "through the model", "from states"
SECTION = "A comparison"
STAGES = {"start": "start", "computing": "states", "training": "training", "evaluation": "measuring"}


class Clock(Watcher):
    """Processor seconds of the stages of a comparison."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str, stage: str = "") -> Iterator[Callable[[float], None]]:
        """Counts a stage."""
        began = time.process_time()
        yield lambda share: None
        self.seconds[STAGES.get("start" if name == "start" else stage, stage)] += time.process_time() - began


def compared(asked: dict[str, Any]) -> dict[str, Any]:
    """One comparison, in this process."""
    import torch

    torch.set_num_threads(1)
    clock = Clock()
    results = nw.compare(**asked["compare"], progress=clock)
    assert not results.failures, results.failures
    nll = {f"{run.method}, {run.seed}": run.evaluation.metrics["nll"].value for run in results.runs}
    return {"seconds": time.process_time(), "stages": dict(clock.seconds), "nll": nll}


def in_own_process(asked: dict[str, Any]) -> dict[str, Any]:
    """The same in a process of its own."""
    ended = subprocess.run(
        [sys.executable, __file__, "--asked", json.dumps(asked)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def section(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The section of docs/records/stored-states.md: comparisons by their names, those with equal seeds as a pair."""
    rows, said = [], []
    for name, one in found.items():
        parts = [one["stages"].get(stage, 0.0) for stage in STAGES.values()]
        numbers = [*parts, one["seconds"] - sum(parts), one["seconds"]]
        rows.append([name.partition(",")[0], str(one["seeds"]), *(f"{number:,.0f}" for number in numbers)])
        other = found.get(name.replace(STORED, THROUGH))
        if name.startswith(STORED) and other is not None:
            apart = max(abs(value - one["nll"][run]) for run, value in other["nll"].items())
            share, seeds = one["seconds"] / other["seconds"], f"{one['seeds']} seed{'s' if one['seeds'] > 1 else ''}"
            said.append(
                f"With {seeds}, from states it takes {share:.2f} of the processor time, and test losses differ by at "
                f"most {apart:.0e} nats per token."
            )
    columns = ["trained", "seeds", *(f"{stage}, s" for stage in STAGES.values()), "rest, s", "all, s"]
    caption = " ".join([next(iter(found.values()))["about"], *said])
    return {"title": SECTION, "parts": [{"caption": caption, "columns": columns, "rows": rows}]}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", nargs="?", help="folder of a decoder-only model")
    options.add_argument("data", nargs="?", type=Path, help="folder with train.txt, valid.txt and test.txt")
    options.add_argument("--heads", nargs="+", default=HEADS)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--steps", type=int, default=4, help="steps of each training")
    options.add_argument("--batch", type=int, default=2, help="rows of 256 tokens in a step")
    options.add_argument("--only", choices=[STORED, THROUGH], help="one of the two comparisons")
    options.add_argument("--name", default="SmolLM2-135M-Instruct", help="what the record calls the model")
    options.add_argument("--out", type=Path, default=RECORDS / "stored-states.json")
    options.add_argument("--asked", help=argparse.SUPPRESS)
    given = options.parse_args(argv)
    if given.asked:
        print(json.dumps(compared(json.loads(given.asked))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        # an epoch of so many rows, and a little more to validate and to measure
        letters = {"train": 6 * LENGTH * given.batch * given.steps, "valid": 6 * LENGTH * 2, "test": 6 * LENGTH * 4}
        for part, count in letters.items():
            text = (given.data / f"{part}.txt").read_text(encoding="utf-8")[:count]
            (data / f"{part}.txt").write_text(text, encoding="utf-8")
        compare = {
            "model": given.model,
            "data": str(data),
            "task": {
                "name": "lm", "block": LENGTH, "window": LENGTH, "stride": LENGTH // 2, "test_tokens": 2 * LENGTH,
                "tuning_tokens": LENGTH,
            },
            "heads": given.heads,
            "seeds": list(range(given.seeds)),
            "keep_models": False,
            "training": {
                "steps": given.steps, "batch_size": given.batch, "save_every": None, "trains": "head",
                "learning_rate": 1e-5,  # a higher one enlarges what rounding changes
            },
        }  # fmt: skip
        found = {}
        ways = {STORED: {"states": str(Path(scratch) / "states")}, THROUGH: {}}
        for name, states in ways.items():
            if given.only not in (None, name):
                continue
            out = Path(scratch) / "out"
            found[name] = in_own_process({"compare": {**compare, **states, "out": str(out)}})
            print(name, json.dumps({key: value for key, value in found[name].items() if key != "nll"}), flush=True)
            subprocess.run(["rm", "-rf", out], check=True)
    torch = Environment.collect().model_dump(mode="json").get("torch", "")
    about = (
        f"{len(given.heads)} heads on {given.name} in float32, {given.steps} steps of {given.batch * LENGTH} tokens "
        f"and {2 * LENGTH:,} test tokens each, through the model (training.trains=head) and from one store, which is "
        f"built at the beginning (states). Processor seconds of one thread, torch {torch}. Heads: "
        f"{', '.join(given.heads)}. Start: copying the model. Rest: imports, attaching every head once to check "
        "it, and attaching, saving and loading in each run."
    )
    record = json.loads(given.out.read_text(encoding="utf-8"))
    others = [one for one in record["sections"] if one["title"] not in (SECTION, "Command")]
    command = next(one for one in record["sections"] if one["title"] == "Command")
    line = "python benchmarks/stored_comparison.py models/smollm2-135m DATA/wikitext-2"
    lines = dict.fromkeys([*command["parts"][0]["commands"], line])
    command = {**command, "parts": [{**command["parts"][0], "commands": list(lines)}]}
    made = {f"{name}, {given.seeds}": {**one, "seeds": given.seeds, "about": about} for name, one in found.items()}
    record["comparison"] = record.get("comparison", {}) | made
    record["sections"] = [*others, section(record["comparison"]), command]
    save(given.out, record)


if __name__ == "__main__":
    main()
