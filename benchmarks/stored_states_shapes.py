"""Steps from stored states for the shapes of large models: random weights, few layers, the rest by layer count."""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from stored_states_reading import LENGTH, random_rows, random_store
from transformers import LlamaConfig, LlamaForCausalLM

import nextword as nw
from nextword.model.attach import probed_rows
from nextword.model.stored_states.state_files import StoredStates
from nextword.model.stored_states.stored_backbone import StoredBackbone, output_weights

TITLE = "Shapes of larger models"
HEAD, VOCABULARY = "softmax+proj", 128_256
SHAPES = {
    "Llama 3.2 1B": (16, {"hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64}),
    "Llama 3.1 8B": (32, {"hidden_size": 4096, "intermediate_size": 14_336, "head_dim": 128}),
}
"""Layers of the model, and its sizes."""
LARGEST = "Llama 3.1 8B"
MEASURED = (1, 2)  # layers
STORED = "from states"
GOAL = 6.0


def shapes(given: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is measured, and its table; shapes that are not asked for stay as they were."""
    before = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else {}
    found = before.get("measured", {}).get("shapes", {}) if isinstance(before.get("measured"), dict) else {}
    found |= {name: _of_shape(name, SHAPES[name][1], given) for name in given.shapes}
    return found, [_table(found)]


def _of_shape(name: str, sizes: dict[str, int], given: argparse.Namespace) -> dict[str, list[float]]:
    torch.manual_seed(0)
    config = LlamaConfig(
        **sizes,
        vocab_size=VOCABULARY,
        num_hidden_layers=max(MEASURED),
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,  # an input embedding of its own is no product, and would take 2 GB
    )
    model: Any = LlamaForCausalLM(config).eval()
    for weight in model.parameters():  # an optimizer's step is not measured: no two gradients stay in memory
        weight.register_post_accumulate_grad_hook(lambda one: setattr(one, "grad", None))
    with tempfile.TemporaryDirectory() as folder:
        whole = nw.attach(model, HEAD)
        rows = random_rows(1)
        random_store(Path(folder), sizes["hidden_size"], 1, [*rows, *probed_rows(whole)])
        ids = torch.tensor([row.ids for row in rows])
        stored = StoredBackbone(model.config, StoredStates(folder), output_weights(model))
        ours = nw.attach(stored, HEAD)
        ours.next_word_head.load_state_dict(whole.next_word_head.state_dict())
        ways = {STORED: (ours, False, max(MEASURED))}
        ways |= {f"frozen, {count}": (whole, False, count) for count in MEASURED}
        ways |= {f"full, {count}": (whole, True, count) for count in MEASURED}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(given.rounds + 1):
            for way, (one, trained, layers) in ways.items():
                model.config.num_hidden_layers = layers
                one.backbone.requires_grad_(trained)
                began = time.process_time()
                one.train()(ids, labels=ids, return_logits=False).loss.backward()
                seconds[way].append(time.process_time() - began)
                one.zero_grad()
                gc.collect()
                print(f"{name} {way}: {seconds[way][-1]:.2f} s", flush=True)
    return {way: of[1:] for way, of in seconds.items()}


def whole_step(found: dict[str, list[float]], way: str, layers: int) -> float:
    """Seconds of a step of the whole model: that with one layer, and the cost of a layer for each other one."""
    one, two = (statistics.median(found[f"{way}, {count}"]) for count in MEASURED)
    return one + (layers - 1) * (two - one)


def _table(found: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    rows = []
    for name, of in found.items():
        layers = SHAPES[name][0]
        ours = statistics.median(of[STORED])
        frozen, full = (whole_step(of, way, layers) for way in ("frozen", "full"))
        measured = [
            ", ".join(f"{statistics.median(of[f'{way}, {count}']):.2f}" for count in MEASURED)
            for way in ("frozen", "full")
        ]
        if name == LARGEST:
            print(f"{name}: {frozen / ours:.1f} times as fast from states, goal {GOAL:.0f}")
        rows.append(
            [
                name,
                f"{ours:.2f}",
                *measured,
                f"{frozen:.1f}",
                f"{full:.1f}",
                f"{frozen / ours:.1f}",
                f"{full / ours:.1f}",
            ]
        )
    columns = [
        "shape",
        "from states, s",
        f"through the model with {MEASURED[0]} and {MEASURED[1]} layers, s",
        "full fine-tuning with as many, s",
        "through all layers, s",
        "full fine-tuning of all, s",
        "speed-up",
        "speed-up over full fine-tuning",
    ]
    rounds = len(next(iter(found.values()))[STORED])
    caption = (
        f"`{HEAD}`, one row of {LENGTH} tokens, {VOCABULARY:,} tokens in the vocabulary, random weights in float32, "
        f"forward and backward pass without the optimizer. Models with {MEASURED[0]} and {MEASURED[1]} layers are "
        "measured; times for all layers (16 and 32) are extrapolated: one layer costs the difference. Input and output "
        f"embedding are tied. Medians of interleaved rounds ({rounds}, after one to warm up)."
    )
    return {"title": TITLE, "parts": [{"caption": caption, "columns": columns, "rows": rows}]}
