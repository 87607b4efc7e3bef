from __future__ import annotations

import pytest
import torch

from nextword.experiments.training import trainer_arguments
from nextword.experiments.training.trainer_arguments import expect_available
from tests.helpers.tiny_trainings import settings


def test_an_unknown_tracker_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"training.report_to:.*'wandbb'"):
        expect_available(settings(report_to=["wandbb"]))


def test_a_tracker_that_is_not_installed_is_refused(monkeypatch):
    class Absent:
        def __init__(self):
            raise RuntimeError("WandbCallback requires wandb to be installed. Run `pip install wandb`.")

    monkeypatch.setitem(trainer_arguments.INTEGRATION_TO_CALLBACK, "wandb", Absent)
    with pytest.raises(ValueError, match=r"training.report_to: 'wandb'"):
        expect_available(settings(report_to=["wandb"]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_float16_without_a_gpu_is_refused():
    with pytest.raises(ValueError, match=r"training\.fp16: needs a GPU"):
        expect_available(settings(fp16=True))


def test_a_training_without_its_library_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(trainer_arguments, "missing", lambda modules: list(modules))
    with pytest.raises(ValueError, match=r"training: needs accelerate.*pip install 'nextword\[experiments\]'"):
        expect_available(settings())
