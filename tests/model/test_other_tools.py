"""The tools that people train and evaluate with: lm-eval and trl, with the real packages (``make test-tools``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from transformers import Trainer, TrainerCallback

import nextword as nw
from nextword.runtime.pretrained import load_tokenizer
from tests.helpers.families import VOCABULARY
from tests.helpers.word_tokenizer import word_tokenizer

pytestmark = pytest.mark.tools

TEXTS = ["w3 w4 w5 w3 w6", "w7 w8 w5 w7 w9 w10 w3 w8 w11", "w3 w6 w11", "w7 w4 w10 w7 w8 w5"]
QUESTIONS = [
    {"text": "w3 w4 w5 w3", "choices": ["w6", "w4"], "gold": 1},
    {"text": "w7 w8 w5 w7", "choices": ["w9", "w8"], "gold": 0},
    {"text": "w3 w6", "choices": ["w11", "w5"], "gold": 1},
]
TASK = """
task: which_word
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{gold}}}}"
metric_list: [{{metric: acc}}]
"""


@pytest.fixture(params=["softmax", "cache", "softmax+cpr:3,5", "mos:2"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A saved model with its tokenizer."""
    torch.manual_seed(0)
    tokens = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    nw.attach(hf.LlamaForCausalLM(hf.LlamaConfig(**tokens, **sizes)), request.param).save_pretrained(tmp_path / "model")
    word_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def joint(model: Any, context: list[int], continuation: list[int]) -> float:
    """The log-probability of a continuation, with all of the text before it in the head's memory."""
    ids = torch.tensor([context + continuation])
    with torch.no_grad():
        each = model.distribution(ids[:, :-1]).log_prob(ids[0, 1:, None])[:, 0]
    return float(each[-len(continuation) :].sum())


@pytest.mark.parametrize("rows", [1, 3])
def test_lm_eval_asks_for_the_joint_probability(folder: Path, rows: int) -> None:
    instance = pytest.importorskip("lm_eval.api.instance").Instance
    from lm_eval.models.huggingface import HFLM

    asked = HFLM(pretrained=str(folder), device="cpu", batch_size=rows, dtype="float32")
    assert type(asked.model).__name__ == "NextWordForCausalLM"
    pairs = [(one["text"], f" {choice}") for one in QUESTIONS for choice in one["choices"]]
    requests = [
        instance(request_type="loglikelihood", doc={}, arguments=pair, idx=number) for number, pair in enumerate(pairs)
    ]
    found = [value for value, _ in asked.loglikelihood(requests, disable_tqdm=True)]
    model = nw.load(folder).eval()
    expected = [joint(model, *asked._encode_pair(*pair)) for pair in pairs]
    assert found == pytest.approx(expected, abs=1e-5)


def test_lm_eval_runs_a_task_without_knowing_us(folder: Path, tmp_path: Path) -> None:
    """``lm_eval --model hf`` in a process of its own, by the code that lies in the folder."""
    pytest.importorskip("lm_eval")
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "which_word.yaml").write_text(TASK.format(data=tmp_path / "data.jsonl"), encoding="utf-8")
    run = [sys.executable, "-m", "lm_eval", "--model", "hf", "--device", "cpu", "--tasks", "which_word"]
    run += ["--model_args", f"pretrained={folder},trust_remote_code=True,dtype=float32"]
    run += ["--include_path", str(tmp_path / "tasks"), "--output_path", str(tmp_path / "out.json")]
    kept = {"HF_HOME": str(tmp_path / "hub"), "HF_DATASETS_TRUST_REMOTE_CODE": "1"}
    said = subprocess.run(run, capture_output=True, text=True, check=False, env={**os.environ, **kept})
    assert said.returncode == 0, said.stderr[-3000:]
    (written,) = tmp_path.glob("out*.json")
    accuracy = json.loads(written.read_text(encoding="utf-8"))["results"]["which_word"]["acc,none"]
    model, tokenizer = nw.load(folder).eval(), load_tokenizer(str(folder), "model")

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    right = 0
    for one in QUESTIONS:
        scores = [joint(model, ids(one["text"]), ids(choice)) for choice in one["choices"]]
        right += scores.index(max(scores)) == one["gold"]
    assert accuracy == pytest.approx(right / len(QUESTIONS))


class Losses(TrainerCallback):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.found += [logs["loss"]] if "loss" in logs else []


def fine_tuned(folder: Path, out: Path, **settings: Any) -> list[float]:
    """The losses of two steps of trl's trainer, as docs/tools.md shows it."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    class HeadSFTTrainer(trl.SFTTrainer):  # type: ignore[misc,name-defined]
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None):
            return Trainer.compute_loss(self, model, inputs, return_outputs, num_items_in_batch)

    steps = {"max_steps": 2, "per_device_train_batch_size": 4, "logging_steps": 1, "learning_rate": 1e-2}
    plain = {"report_to": [], "save_strategy": "no", "use_cpu": True, "bf16": False, "max_length": 32}
    losses = Losses()
    HeadSFTTrainer(
        model=nw.load(folder),
        args=trl.SFTConfig(output_dir=str(out), **steps, **plain, **settings),
        train_dataset=Dataset.from_dict({"text": TEXTS}),
        processing_class=load_tokenizer(str(folder), "model"),
        callbacks=[losses],
    ).train()
    return losses.found


def nats_per_token(folder: Path) -> float:
    """Of the texts, each read alone."""
    tokenizer, model = load_tokenizer(str(folder), "model"), nw.load(folder).eval()
    rows = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in TEXTS]
    return sum(-joint(model, row[:1], row[1:]) for row in rows) / sum(len(row) - 1 for row in rows)


@pytest.mark.parametrize("packing", [False, True])
def test_trl_trains_a_head_by_its_own_loss(folder: Path, tmp_path: Path, packing: bool) -> None:
    """Packed, all texts stand in one row with positions of their own, and no head sees one from another."""
    found = fine_tuned(folder, tmp_path / "out", packing=packing)
    assert found[0] == pytest.approx(nats_per_token(folder), abs=1e-3)
    assert found[1] < found[0]
