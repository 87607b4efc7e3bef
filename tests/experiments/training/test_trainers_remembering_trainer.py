"""What trainings share whose rows see one another: they go on where they were, learn of the memory, and refuse."""

from __future__ import annotations

import pytest
import torch

from nextword.experiments.training.one_training import fit
from nextword.runtime.optional_libraries import missing
from tests.helpers.segmented_text import LENGTH, data, model
from tests.helpers.tiny_trainings import killed_at, settings, weights

SETTINGS = [
    "consecutive",
    pytest.param("alike", marks=pytest.mark.skipif(bool(missing(["bm25s"])), reason="bm25s is not installed")),
]
"""What asks for one."""


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_interrupted_goes_on(tmp_path, setting: str) -> None:
    asked = settings(save_every=2, **{setting: True})
    whole, parts = model(), model()
    fit(whole, data(), asked, seed=1, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(parts, data(), asked, seed=1, folder=tmp_path / "parts", progress=killed_at(5))
    parts = model()
    fit(parts, data(), asked, seed=1, folder=tmp_path / "parts")
    for name, value in weights(whole).items():
        assert torch.equal(value, parts.state_dict()[name]), name


@pytest.mark.few(1)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_memory_changes_what_is_learned(tmp_path, setting: str) -> None:
    long, short = model(), model(f"cache:long={LENGTH}")
    for ours, folder in ((long, "long"), (short, "short")):
        fit(ours, data(), settings(**{setting: True}), seed=1, folder=tmp_path / folder)
    assert not torch.equal(long.get_output_embeddings().weight, short.get_output_embeddings().weight)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_a_head_that_sees_its_window_alone_is_refused(tmp_path, head: str, setting: str) -> None:
    with pytest.raises(ValueError, match=rf"training.{setting}: must be used with a head that has memory.*cache:long"):
        fit(model(head), data(), settings(**{setting: True}), seed=1, folder=tmp_path)
