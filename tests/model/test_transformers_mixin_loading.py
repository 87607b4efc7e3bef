"""What a configuration says of the output layer, and what a checkpoint need not hold."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, Trainer, TrainingArguments

import nextword as nw
from tests.helpers.families import inputs, labels, tiny


def saved_with(folder: Path, scale: Any, family: str = "t5", head: str = "softmax+mi") -> Path:
    nw.attach(tiny(family), head).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"state_scale": scale}))
    return folder


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, "one", True])
def test_no_factor_at_all_is_refused(scale: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"state_scale:.*configuration"):
        nw.load(saved_with(tmp_path, scale))


@pytest.mark.parametrize(("family", "scale"), [("t5", 5), ("t5", 1.0), ("gpt2", 5.0), ("gpt2", 0.9)])
def test_another_factor_than_the_models_is_refused(family: str, scale: float, tmp_path: Path) -> None:
    auto = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    saved_with(tmp_path, scale, family)
    for load in (nw.load, auto.from_pretrained):
        with pytest.raises(ValueError, match=rf"state_scale: {scale:g} in the configuration, but .* times its last"):
            load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_right_factor_and_none(dtype: torch.dtype, tmp_path: Path) -> None:
    given = inputs(tiny("t5"))
    expected = nw.load(saved_with(tmp_path, 32**-0.5), dtype=dtype).eval()(**given).logits
    found = nw.load(saved_with(tmp_path, None), dtype=dtype).eval()(**given).logits
    assert torch.equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_a_resumed_training_misses_nothing(family: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Tied weights stand in a checkpoint once, and are tied again where it is read."""
    given = inputs(tiny(family))
    columns = {name: tensor.tolist() for name, tensor in given.items()} | {"labels": labels(given).tolist()}

    def trained(model: Any, resume: str | None, steps: int) -> Any:
        arguments = TrainingArguments(
            str(tmp_path), max_steps=steps, save_steps=1, per_device_train_batch_size=3, use_cpu=True, report_to=[],
            logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        Trainer(model, arguments, train_dataset=Dataset.from_dict(columns)).train(resume_from_checkpoint=resume)
        return model

    trained(nw.attach(tiny(family), "mos:2"), None, 1)
    checkpoint = tmp_path / "checkpoint-1"
    with safe_open(checkpoint / "model.safetensors", "pt") as file:
        stored = set(file.keys())
    resumed = nw.attach(tiny(family), "mos:2")
    assert set(resumed.state_dict()) - stored == resumed._keys_to_ignore_on_save != set()
    with caplog.at_level(logging.WARNING):
        trained(resumed, str(checkpoint), 2)
    assert "missing keys" not in caplog.text
    assert resumed.get_output_embeddings().weight is resumed.get_input_embeddings().weight


def test_what_is_no_longer_tied_is_saved(tmp_path: Path) -> None:
    model = nw.attach(tiny("gpt2"), "mos:2").eval()
    model.backbone.lm_head.weight = torch.nn.Parameter(2 * model.backbone.lm_head.weight.detach())
    assert model._keys_to_ignore_on_save == set()
    expected = model(**inputs(model)).logits
    model.save_pretrained(tmp_path)
    assert torch.equal(nw.load(tmp_path).eval()(**inputs(model)).logits, expected)
