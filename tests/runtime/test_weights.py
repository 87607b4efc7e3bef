"""Weights in files: the same numbers, no memory, and nothing left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from nextword.runtime import weights
from nextword.runtime.weights import MemoryMappedModel, convert, copy_on_disk, saved_precision
from tests.helpers import parity


def is_on_disk(tensor: torch.Tensor) -> bool:
    """Whether a file stands behind the memory of a tensor (Linux)."""
    place = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        begin, end = (int(number, 16) for number in line.split()[0].split("-"))
        if begin <= place < end:
            return ".weights" in line
    return False


linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="maps are read as Linux gives them")


@linux
@pytest.mark.parametrize("kind", sorted(parity.BACKBONES))
def test_a_model_made_on_disk_is_that_made_in_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LEAST", 1000)
    torch.manual_seed(0)
    right = parity.BACKBONES[kind]()
    after = torch.rand(1)
    torch.manual_seed(0)
    with MemoryMappedModel(tmp_path):
        found = parity.BACKBONES[kind]()
    assert torch.equal(torch.rand(1), after), "and what is drawn later is the same"
    assert is_on_disk(found.get_output_embeddings().weight)
    assert not is_on_disk(right.get_output_embeddings().weight)
    for name, weight in found.state_dict().items():
        assert torch.equal(weight, right.state_dict()[name]), name
    assert not list(tmp_path.iterdir())


@linux
def test_small_tensors_and_other_devices_stay_where_they_are(tmp_path: Path) -> None:
    with MemoryMappedModel(tmp_path), torch.device("meta"):
        assert nn.Linear(600, 600).weight.is_meta
    with MemoryMappedModel(tmp_path):
        layer = nn.Linear(600, 600)
    assert is_on_disk(layer.weight)
    assert not is_on_disk(layer.bias)


@linux
@pytest.mark.parametrize("folder", [True, False], ids=["disk", "memory"])
def test_a_model_is_converted_as_transformers_loads_it(
    folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LEAST", 1)
    model = parity.llama()
    model.save_pretrained(tmp_path / "model")
    right = type(model).from_pretrained(tmp_path / "model", dtype=torch.bfloat16)
    convert(model, torch.bfloat16, tmp_path if folder else None)
    assert model.config.dtype == model.dtype == torch.bfloat16
    assert is_on_disk(model.lm_head.weight) is folder
    for (name, found), wanted in zip(
        [*model.named_parameters(), *model.named_buffers()], [*right.parameters(), *right.buffers()], strict=True
    ):
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist()), name


def test_what_a_model_keeps_in_single_precision_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parity.llama()
    monkeypatch.setattr(model, "_keep_in_fp32_modules_strict", ["mlp.*_proj"], raising=False)
    convert(model, torch.bfloat16)
    single = {name for name, weight in model.named_parameters() if weight.dtype == torch.float32}
    assert single == {name for name, _ in model.named_parameters() if ".mlp." in name}


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    model = parity.gpt2()
    convert(model, torch.bfloat16, tmp_path)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


@pytest.mark.parametrize(
    ("weights", "precision"),
    [
        ({"a": torch.float32, "b": torch.float32}, torch.float32),
        ({"a": torch.bfloat16}, torch.bfloat16),
        ({"a": torch.bfloat16, "b": torch.float32}, None),
        ({"a": torch.int8}, None),
        ({}, None),
    ],
)
def test_the_precision_of_saved_weights(weights: dict[str, Any], precision: Any, tmp_path: Path) -> None:
    for name, dtype in weights.items():
        save_file({name: torch.zeros(2, dtype=dtype)}, tmp_path / f"{name}.safetensors")
    assert saved_precision(tmp_path) == precision


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room is asked for where the system can tell")
def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        copy_on_disk(torch.zeros(2**18), tmp_path)
    assert not list(tmp_path.iterdir())
