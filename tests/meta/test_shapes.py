"""Shape annotations are checked: those of every module that has any."""

from __future__ import annotations

import importlib

import jaxtyping
import pytest
import torch

from nextword.functional.logspace import log_add_exp
from tests.conftest import SHAPED


def test_every_module_with_shapes_is_checked() -> None:
    """The hook loads a module in place of Python's own loader."""
    loaders = {name: importlib.import_module(name).__spec__.loader for name in SHAPED}  # type: ignore[union-attr]
    assert [name for name, loader in loaders.items() if not type(loader).__module__.startswith("jaxtyping")] == []


def test_a_wrong_shape_is_an_error() -> None:
    jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(jaxtyping.TypeCheckError):
        log_add_exp(torch.zeros(2), torch.zeros(3))
