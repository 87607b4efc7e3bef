"""Little news for the tests of the task ``expand``: pairs, a tokenizer, an encoder and models, all tiny."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.experiments.tasks.expand import Expand, ExpandConfig
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.settings.config import validated

NAMES = ["Ann", "Bob", "Cyd", "Dän", "Eve", "Fay", "Gus", "Hal"]
PLACES = ["Rome", "Oslo", "Lima", "Bonn", "Kiev"]
LENGTH = 12


def pair(number: int) -> dict[str, str]:
    who, place = NAMES[number % 8], PLACES[number % 5]
    article = f"{who} was in {place} on day {number}. They talked.\nThen {who} went home and slept for {number} hours."
    return {"highlights": f"{who} saw {place} {number}.", "article": article}


def write_pairs(folder: Path, train: int = 20, validation: int = 4, test: int = 6) -> Path:
    begin = 0
    for part, count in {"train": train, "validation": validation, "test": test}.items():
        rows = [json.dumps(pair(number), ensure_ascii=False) for number in range(begin, begin + count)]
        (folder / f"{part}.jsonl").write_text("\n".join(rows), encoding="utf-8")
        begin += count
    return folder


def save_encoder(folder: Path) -> str:
    text = "\n".join(f"{one['highlights']}" for one in map(pair, range(40)))
    tokenizer = trained_tokenizer(text, 280, None)
    tokenizer.model_max_length = 32
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def small(data: Path | str, **settings: Any) -> Expand:
    given = {
        "data": str(data), "vocabulary": 300, "length": LENGTH, "prompt_tokens": 7, "batch_size": 4,
        "start": {"n_layer": 1, "n_embd": 16, "n_head": 2, "block": 16},
        "generation": {"prompts": 5, "batch_size": 3}, **settings,
    }  # fmt: skip
    return Expand(validated(ExpandConfig, given, "task"))


def attached(task: Expand, head: str = "softmax", conditioner: str | dict[str, Any] | None = None) -> Any:
    torch.manual_seed(0)
    tokenizer = task.start.tokenizer()
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=16, n_layer=1, n_head=2, initializer_range=1.0,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    encoder = task.data.encoder() if conditioner is not None else None
    return nw.attach(GPT2LMHeadModel(config), head, conditioner=conditioner, encoder=encoder).eval()
