"""A step that trains a head alone, through the model and from stored states, in turns in one process.

    python benchmarks/stored_states.py models/smollm2-135m text.txt
    python benchmarks/stored_states.py models/smollm2-135m text.txt --rounds 7 --heads softmax+proj

Processor seconds of one thread. Writes docs/records/stored-states.json and its page.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def measured(model: Any, stored: Any, head: str, ids: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Seconds and losses of steps of one head, the first round of each left out."""
    torch.manual_seed(0)
    through, ours = nw.attach(model, head), nw.attach(stored, head)
    ours.next_word_head.load_state_dict(through.next_word_head.state_dict())
    seconds: dict[str, list[float]] = {"through the model": [], "from states": []}
    losses = []
    for _ in range(rounds + 1):
        for (name, of), one in zip(seconds.items(), (through, ours), strict=True):
            one.backbone.requires_grad_(False)
            one.zero_grad()
            began = time.process_time()
            loss = one.train()(ids, attention_mask=torch.ones_like(ids), labels=ids, return_logits=False).loss
            loss.backward()
            of.append(time.process_time() - began)
            losses.append(loss.item())
            print(f"{head} {name}: {of[-1]:.2f} s, loss {losses[-1]:.6f}", flush=True)
    return {"head": head, "loss_change": losses[1] - losses[0], **{name: of[1:] for name, of in seconds.items()}}


def record(rows: list[dict[str, Any]], built: dict[str, Any], name: str) -> dict[str, Any]:
    """The record of docs/records/stored-states.md."""
    environment = Environment.collect().model_dump(mode="json")
    cells = []
    for row in rows:
        one, other = (statistics.median(row[key]) for key in ("through the model", "from states"))
        spread = [f"{min(row[key]):.2f} to {max(row[key]):.2f}" for key in ("through the model", "from states")]
        change = f"{row['loss_change']:+.1e}"
        cells.append(
            [row["head"], f"{one:.2f} ({spread[0]})", f"{other:.2f} ({spread[1]})", f"{one / other:.2f}", change]
        )
    about = (
        f"One training step of a head alone, {ROWS} rows of {LENGTH} tokens with {name}: forward and backward pass, "
        "processor seconds of one thread in float32, median of interleaved rounds (lowest to highest). The states are "
        f"stored in float16. torch {environment.get('torch', torch.__version__)}."
    )
    columns = ["head", "through the model, s", "from states, s", "speed-up", "loss, nats per token, minus that through"]
    store = [[f"{built['tokens']:,}", f"{built['seconds']:.1f}", f"{built['mib']:.0f}", f"{built['rounding']:.1e}"]]
    return {
        "title": "Train from stored states",
        "name": "Stored states",
        "guide": "../states.md",
        "about": about,
        "sections": [
            {"title": "A training step", "parts": [{"caption": "", "columns": columns, "rows": cells}]},
            {
                "title": "The store",
                "parts": [
                    {
                        "caption": "",
                        "columns": ["tokens", "processor seconds", "MiB", "rounding, share of the norm"],
                        "rows": store,
                    }
                ],
            },
            {
                "title": "Command",
                "parts": [
                    {"commands": ["python benchmarks/stored_states.py models/smollm2-135m train.txt"], "shell": True}
                ],
            },
        ],
        "measured": rows,
        "environment": environment,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", help="folder of a decoder-only model")
    options.add_argument("text", type=Path, help="file with text of 1,024 tokens or more")
    options.add_argument("--heads", nargs="+", default=HEADS)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--name", default="SmolLM2-135M-Instruct", help="what the record calls the model")
    options.add_argument("--out", type=Path, default=RECORDS / "stored-states.json")
    given = options.parse_args(argv)
    torch.set_num_threads(1)
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
    save(given.out, record(found, built, given.name))
    print(json.dumps(built))


if __name__ == "__main__":
    main()
