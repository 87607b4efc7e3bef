"""Models trained by transformers' Trainer, and the losses of each step."""

from __future__ import annotations

from pathlib import Path

import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

import nextword as nw

V, LENGTH = 40, 12


def causal(head: str, objective: str = "mle"):
    torch.manual_seed(0)
    gpt2 = GPT2Config(vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0)
    return nw.attach(GPT2LMHeadModel(gpt2), head, objective)


def seq2seq(head: str, objective: str = "mle"):
    torch.manual_seed(0)
    t5 = T5Config(
        vocab_size=V, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0, dropout_rate=0.0
    )
    return nw.attach(T5ForConditionalGeneration(t5), head, objective)


def rows(count: int = 16) -> Dataset:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, V, (count, LENGTH), generator=generator)
    labels = ids.clone()
    for row in range(count):
        labels[row, : row % 7] = -100  # so that micro-batches have different numbers of targets
    return Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})


def collate(examples: list[dict]) -> dict:
    return {key: torch.tensor([example[key] for example in examples]) for key in ("input_ids", "labels")}


def trainer(model, folder: Path, **settings) -> Trainer:
    arguments = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 3,
    } | settings
    return Trainer(
        model, TrainingArguments(**arguments), data_collator=collate, train_dataset=rows(), eval_dataset=rows(4)
    )


def losses(run: Trainer) -> list[float]:
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]
