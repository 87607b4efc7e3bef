"""How building a store, opening it, a training step and the memory of a process grow with the size of the store."""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.states import StatesSettings, build_states
from nextword.model.stored_states.state_files import TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone

TITLE = "Growth with the size of the store"
LENGTH, BATCH, ROWS = 256, 4, 512
TIMES = (1, 2, 4, 8)
STEPS = 8
LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}


def growth(given: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is measured, and its table."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model: Any = LlamaForCausalLM(LlamaConfig(**LLAMA, vocab_size=len(tokenizer))).eval()
    opened = OpenedModel.of(model, tokenizer)
    _of_size(opened, 1, BATCH * STEPS)  # to warm up
    found = [_of_size(opened, times, ROWS * times) for times in TIMES]
    return {"sizes": found}, [_table(found)]


def _of_size(opened: OpenedModel, times: int, count: int) -> dict[str, Any]:
    rows = [TokenRow(tuple(one.tolist())) for one in torch.randint(0, opened.model.config.vocab_size, (count, LENGTH))]
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        manifest = build_states(opened, rows, folder, StatesSettings(layers=1))
        built = time.process_time() - began
        began = time.process_time()
        stored = StoredBackbone.open(folder)
        assert rows[0] in stored.store
        open_seconds = time.process_time() - began
        model = nw.attach(stored, "softmax+proj")
        model.backbone.requires_grad_(False)
        seconds = []
        for first in range(0, BATCH * STEPS, BATCH):
            ids = torch.tensor([row.ids for row in rows[first : first + BATCH]])
            began = time.process_time()
            model.train()(ids, labels=ids, return_logits=False).loss.backward()
            seconds.append(time.process_time() - began)
        before = resident()
        for row in rows:
            assert stored.store.of(row) is not None
        size = sum(path.stat().st_size for path in Path(folder).glob("*.npy"))
        found = {
            "times": times,
            "tokens": manifest.tokens,
            "shards": len(manifest.shards),
            "mib": size / 2**20,
            "build": built,
            "open": open_seconds,
            "step": statistics.median(seconds[1:]),
            "resident": resident() - before,
        }
    print(found, flush=True)
    return found


def resident() -> float:
    """MiB of this process that are in memory, pages of files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def exponent(found: list[dict[str, Any]], key: str) -> float:
    """Least squares slope of a quantity over the tokens, both as logarithms."""
    points = [(math.log(one["tokens"]), math.log(one[key])) for one in found]
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope


def _table(found: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [
        [
            f"{one['times']} ×",
            f"{one['tokens']:,}",
            f"{one['shards']}",
            f"{one['mib']:.0f}",
            f"{one['build']:.1f}",
            f"{1000 * one['open']:.0f}",
            f"{one['step']:.3f}",
            f"{one['resident']:.1f}",
        ]
        for one in found
    ]
    slopes = [f"{exponent(found, key):.2f}" for key in ("build", "open", "step")]
    rows.append(["exponent", "1", "", "", *slopes, ""])
    columns = [
        "size",
        "tokens",
        "shards",
        "MiB",
        "build, s",
        "opening, ms",
        "step from states, s",
        "memory that reading every row adds, MiB",
    ]
    caption = (
        f"A random Llama of width 64 and one layer, {BATCH} rows of {LENGTH} tokens per step, `softmax+proj`. Opening "
        "includes finding the first row. Memory is resident memory with mapped pages."
    )
    return {"title": TITLE, "parts": [{"caption": caption, "columns": columns, "rows": rows}]}
