"""Heads that are trained from stored states: what a step, reading, a larger store and the memory of a training cost.

    python benchmarks/stored_states.py models/smollm2-135m train.txt
    python benchmarks/stored_states.py models/smollm2-135m train.txt --parts steps --rounds 7 --heads softmax+proj

Parts, with minutes on two cores: ``steps`` (7), ``shapes`` (10, and 7 GB of memory), ``reading`` (1), ``growth`` (4),
``memory`` (5). Each writes its own tables of docs/records/stored-states.json and leaves the others as they are. Times
are processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stored_states_growth
import stored_states_memory
import stored_states_reading
import stored_states_shapes
import torch
from gpu import RECORDS, save
from transformers import AutoModelForCausalLM, AutoTokenizer

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.states import StatesSettings, build_states
from nextword.model.stored_states.state_files import TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.results.records import Environment

HEADS = ["softmax+proj", "softmax+cpr:20,100+mi", "mos:3"]
LAYERS = 3  # what +mi reads
LENGTH, ROWS = 256, 4
FROZEN, FULL, STORED = "through the model", "full fine-tuning", "from states"


# -- A step: of a head alone through the model and from states, and of the whole model.


def steps(given: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is measured with a model, and its tables."""
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model: Any = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32).eval()
    ids = tokenizer(given.text.read_text(encoding="utf-8")[: 50 * LENGTH * ROWS])["input_ids"]
    rows = [TokenRow(tuple(ids[at * LENGTH : (at + 1) * LENGTH])) for at in range(ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        manifest = build_states(OpenedModel.of(model, tokenizer), rows, folder, StatesSettings(layers=LAYERS))
        size = sum(path.stat().st_size for path in Path(folder).glob("*.npy"))
        built = {"tokens": manifest.tokens, "seconds": time.process_time() - began, "mib": size / 2**20}
        built["rounding"] = manifest.rounding
        stored = StoredBackbone.open(folder, torch.float32)
        batch = torch.tensor([row.ids for row in rows])
        found = [measured(model, stored, head, batch, given.rounds) for head in given.heads]
    return {"heads": found, "store": built}, step_tables(found, built, given.name)


def measured(model: Any, stored: Any, head: str, ids: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Seconds and losses of steps of one head, the first round of each left out."""
    torch.manual_seed(0)
    through, ours = nw.attach(model, head), nw.attach(stored, head)
    ours.next_word_head.load_state_dict(through.next_word_head.state_dict())
    seconds: dict[str, list[float]] = {FROZEN: [], STORED: [], FULL: []}
    losses = []
    for _ in range(rounds + 1):
        for (name, of), one in zip(seconds.items(), (through, ours, through), strict=True):
            one.backbone.requires_grad_(name == FULL)
            began = time.process_time()
            loss = one.train()(ids, attention_mask=torch.ones_like(ids), labels=ids, return_logits=False).loss
            loss.backward()
            of.append(time.process_time() - began)
            one.zero_grad()
            losses.append(loss.item())
            print(f"{head} {name}: {of[-1]:.2f} s, loss {losses[-1]:.6f}", flush=True)
    return {"head": head, "loss_change": losses[1] - losses[0], **{name: of[1:] for name, of in seconds.items()}}


def step_tables(rows: list[dict[str, Any]], built: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The tables of steps, and of the store that they read."""
    cells = []
    for row in rows:
        median = {way: statistics.median(row[way]) for way in (FROZEN, FULL, STORED)}
        shown = [f"{median[way]:.2f} ({min(row[way]):.2f} to {max(row[way]):.2f})" for way in median]
        faster = [f"{median[way] / median[STORED]:.2f}" for way in (FROZEN, FULL)]
        cells.append([row["head"], *shown, *faster, f"{row['loss_change']:+.1e}"])
    columns = [
        "head",
        "through the model, s",
        "full fine-tuning, s",
        "from states, s",
        "speed-up",
        "speed-up over full fine-tuning",
        "loss, nats per token, minus that through",
    ]
    caption = (
        f"{ROWS} rows of {LENGTH} tokens with {name}: forward and backward pass in float32, median of interleaved "
        "rounds (lowest to highest). The states are stored in float16. Full fine-tuning is a step of the same head "
        "with gradients of all weights."
    )
    store = [[f"{built['tokens']:,}", f"{built['seconds']:.1f}", f"{built['mib']:.0f}", f"{built['rounding']:.1e}"]]
    of_store = ["tokens", "processor seconds", "MiB", "rounding, share of the norm"]
    return [
        {"title": "A training step", "parts": [{"caption": caption, "columns": columns, "rows": cells}]},
        {"title": "The store", "parts": [{"caption": "", "columns": of_store, "rows": store}]},
    ]


# -- The record, one part after the other.


@dataclass(frozen=True)
class _Part:
    measure: Callable[[argparse.Namespace], tuple[dict[str, Any], list[dict[str, Any]]]]
    sections: tuple[str, ...]


PARTS = {
    "steps": _Part(steps, ("A training step", "The store")),
    "shapes": _Part(stored_states_shapes.shapes, (stored_states_shapes.TITLE,)),
    "reading": _Part(stored_states_reading.reading, (stored_states_reading.TITLE,)),
    "growth": _Part(stored_states_growth.growth, (stored_states_growth.TITLE,)),
    "memory": _Part(stored_states_memory.memory, (stored_states_memory.TITLE,)),
}
COMMAND = "python benchmarks/stored_states.py models/smollm2-135m train.txt"


def with_part(
    before: dict[str, Any], name: str, found: dict[str, Any], sections: list[dict[str, Any]]
) -> dict[str, Any]:
    """The record with the tables of one part in place of its former ones; those of other scripts stay."""
    environment = Environment.collect().model_dump(mode="json")
    by_title = {section["title"]: section for section in [*before.get("sections", []), *sections]}
    order = [title for part in PARTS.values() for title in part.sections]
    titles = [title for title in order if title in by_title] + [one for one in by_title if one not in order]
    titles = [one for one in titles if one != "Command"]
    command = {"title": "Command", "parts": [{"commands": [COMMAND], "shell": True}]}
    former = before.get("measured", {})
    return {
        "title": "Train from stored states",
        "name": "Stored states",
        "guide": "../states.md",
        "about": (
            "What training a head from stored states costs, in processor seconds of one thread. "
            f"torch {environment.get('torch', torch.__version__)}."
        ),
        "sections": [by_title[title] for title in titles] + [command],
        "measured": (former if isinstance(former, dict) else {}) | {name: found},
        "environment": environment,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="folder of a decoder-only model")
    options.add_argument("text", type=Path, help="file with text of 20,000 tokens or more")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--heads", nargs="+", default=HEADS)
    options.add_argument(
        "--shapes", nargs="+", choices=stored_states_shapes.SHAPES, default=stored_states_shapes.SHAPES
    )
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--name", default="SmolLM2-135M-Instruct", help="what the record calls the model")
    options.add_argument("--out", type=Path, default=RECORDS / "stored-states.json")
    given = options.parse_args(argv)
    torch.set_num_threads(1)
    for name in given.parts:
        found, sections = PARTS[name].measure(given)
        before = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else {}
        save(given.out, with_part(before, name, found, sections))
        print(json.dumps({name: found}), flush=True)


if __name__ == "__main__":
    main()
