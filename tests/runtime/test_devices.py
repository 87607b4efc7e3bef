from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nextword.runtime.devices import best_device

SOURCE = Path(__file__).parents[2] / "src" / "nextword"


def test_a_cuda_build_without_a_gpu_computes_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert best_device() == torch.device("cpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert best_device() == torch.device("cuda")


def test_nobody_else_asks_for_the_accelerator() -> None:
    asking = [path.name for path in SOURCE.rglob("*.py") if "current_accelerator" in path.read_text(encoding="utf-8")]
    assert asking == ["devices.py"]
