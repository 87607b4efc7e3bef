"""Memory of a training from stored states, each in a process of its own, above what the imported libraries take.

python benchmarks/stored_states_memory.py '{"states": "states", "head": "mos:3", "training": {"steps": 3}}'
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.experiments.training.stored_training import store_task_states
from nextword.experiments.training.train_config import configured
from nextword.inference.states import StatesSettings

TITLE = "Peak memory of a training"
LENGTH, BATCH = 256, 4
TASK = {"block": LENGTH, "window": LENGTH, "stride": LENGTH, "test_tokens": 2048}
TRAINING = {"steps": 4, "batch_size": BATCH, "trains": "head"}
UNTIED = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "tie_word_embeddings": False,
}
SMALL, LARGE = "SmolLM2-135M", "random Llama, bfloat16, own input embedding"
MIB = 2**20


def memory(given: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is measured, and its table."""
    found = []
    with tempfile.TemporaryDirectory() as work:
        text = Path(work) / "text.txt"
        text.write_text(given.text.read_text(encoding="utf-8")[:60_000], encoding="utf-8")
        random = Path(work) / "random"
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**UNTIED)).bfloat16().save_pretrained(random)
        AutoTokenizer.from_pretrained(given.model).save_pretrained(random)
        for name, model in ((SMALL, str(given.model)), (LARGE, str(random))):
            task = {"data": str(text), **TASK}
            states = Path(work) / f"states of {Path(model).name}"
            store_task_states(configured({"model": model, "task": task, "head": "softmax"}), states, StatesSettings())
            head = "softmax+proj"
            for way, of in (("from states", {"states": str(states)}), ("through the model", {"model": model})):
                recipe = {**of, "head": head, "training": TRAINING} | ({"task": task} if "model" in of else {})
                out = Path(work) / f"{name} {way}"
                found.append({"model": name, "head": head, "way": way, **_child(recipe, out), **_sizes(model, head)})
                print(found[-1], flush=True)
    return {"trainings": found}, [_table(found)]


def _sizes(folder: str, head: str) -> dict[str, float]:
    model = nw.attach(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), head)
    output, config = model.get_output_embeddings(), model.config.get_text_config()
    return {
        "head": 4 * _mib(model.next_word_head.parameters()),  # weights, gradients, AdamW's two averages
        "embedding": output.weight.numel() * 4 / MIB,
        "backbone": _mib(model.backbone.parameters()),
        "batch": BATCH * LENGTH * config.vocab_size * 4 / MIB,
    }


def _mib(weights: Any) -> float:
    return sum(4 * one.numel() for one in weights) / MIB


def _child(recipe: dict[str, Any], out: Path) -> dict[str, float]:
    command = [sys.executable, __file__, json.dumps(recipe), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    measured: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return measured


def _status() -> dict[str, float]:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {one[0].rstrip(":"): int(one[1]) / 1024 for one in lines if one[0].startswith(("VmHWM", "VmRSS", "RssAnon"))}


def train_and_watch(recipe: dict[str, Any], out: str) -> dict[str, float]:
    """Trains in this process; MiB at most, above those before it opened anything."""
    from nextword.experiments.training.train_model import train

    before, done = _status(), threading.Event()
    anonymous = [before["RssAnon"]]

    def watch() -> None:
        while not done.wait(0.01):
            anonymous.append(_status()["RssAnon"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        train(recipe=recipe, out=out)
    finally:
        done.set()
        watcher.join()
    return {
        "libraries": before["VmRSS"],
        "peak": _status()["VmHWM"] - before["VmRSS"],
        "anonymous": max(anonymous) - before["RssAnon"],
    }


def _table(found: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for one in found:
        allowed = one["head"] + one["embedding"] + 3 * one["batch"]
        if one["way"] == "from states":
            print(f"{one['model']}: {one['peak']:,.0f} MiB, goal {allowed:,.0f} MiB")
        sizes = [f"{one[key]:,.0f}" for key in ("peak", "anonymous", "head", "embedding", "batch", "backbone")]
        rows.append([one["model"], one["way"], *sizes, f"{allowed:,.0f}"])
    columns = [
        "model",
        "trained",
        "peak, MiB",
        "not mapped, MiB",
        "head, MiB",
        "output embedding, MiB",
        "scores of a batch, MiB",
        "all weights of the model in float32, MiB",
        "head + embedding + 3 batches, MiB",
    ]
    caption = (
        f"`softmax+proj`, {BATCH} rows of {LENGTH} tokens per step, a process of its own with weights in float32: "
        "largest resident memory above that of the process before it opened anything; the second column has no mapped "
        "pages. A head has weights, gradients and the optimizer's two averages."
    )
    return {"title": TITLE, "parts": [{"caption": caption, "columns": columns, "rows": rows}]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(train_and_watch(json.loads(sys.argv[1]), sys.argv[2])))
