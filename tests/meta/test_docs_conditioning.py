"""The examples of docs/conditioning.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import nextword as nw

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]


def test_examples_of_conditioning_run(
    monkeypatch: pytest.MonkeyPatch,
    backbone: transformers.GPT2LMHeadModel,
    encoder: transformers.BertModel,
    tmp_path: Path,
) -> None:
    from nextword.experiments.tasks.tokenizers import word_tokenizer

    text = (ROOT / "docs" / "conditioning.md").read_text(encoding="utf-8")
    first, trainer, lora = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    tokenizer = word_tokenizer(["A bishop falls ill in North Dakota. The diocese said so. It rained a lot. Rain."])
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda name: backbone)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda name: tokenizer)
    names: dict[str, Any] = {}
    encoder.save_pretrained(tmp_path / "encoder")
    named = 'reader = "minilm"'
    assert named in first
    exec(first.replace(named, f"reader = {str(tmp_path / 'encoder')!r}"), {}, names)
    assert torch.isfinite(names["loss"])
    assert names["written"].shape[1] > names["text"].input_ids.shape[1]
    monkeypatch.chdir(tmp_path)
    exec(
        trainer.replace('TrainingArguments("runs/mine", ', 'TrainingArguments("runs/mine", use_cpu=True, '),
        names | {"encoder_tokenizer": tokenizer},
    )
    pytest.importorskip("peft")
    exec(lora, {"nw": nw, "backbone": backbone, "encoder": encoder}, names)
    trained = {name.split(".")[-2] for name, part in names["tuned"].named_parameters() if part.requires_grad}
    assert "default" in trained
