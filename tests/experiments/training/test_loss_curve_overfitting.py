"""When validation losses have risen, and what is said."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from nextword.experiments.training.loss_curve import risen, rises_steadily, warning
from nextword.experiments.training.train_model import StepTeller
from nextword.results.records import CurvePoint
from nextword.runtime.progress import Watcher


def curve(*losses: float) -> list[CurvePoint]:
    return [CurvePoint(step=10 * place, loss=loss) for place, loss in enumerate(losses, 1)]


def test_a_curve_that_falls_or_hardly_rises_is_no_news() -> None:
    for losses in ((), (3.0,), (3.0, 2.0), (3.0, 2.0, 2.005)):
        assert risen(curve(*losses)) is None
        assert warning(curve(*losses), keep_best=True, finished=True) == ""


def test_a_few_higher_losses_may_be_chance() -> None:
    assert not rises_steadily(curve(3.0, 2.0, 2.5, 2.4))
    assert rises_steadily(curve(3.0, 2.0, 2.5, 2.4, 2.6))
    assert not rises_steadily(curve(3.0, 2.0, 2.5, 2.4, 1.9))


def test_it_says_since_when_and_what_to_do() -> None:
    losses = curve(3.0, 2.0, 2.5)
    alone = warning(losses, keep_best=False, finished=True)
    assert "lowest at step 20 (2.000) and is 2.500 at step 30" in alone
    assert alone.endswith("Give training.keep_best=true, training.steps=20, or more text.")
    assert "The weights of step 20 are kept" in warning(losses, keep_best=True, finished=False)
    assert "This is the model of step 20" in warning(losses, keep_best=True, finished=True)


def test_it_is_said_once_while_a_model_trains(caplog: pytest.LogCaptureFixture) -> None:
    teller, log = StepTeller(Watcher(), "training", keep_best=True), []
    for step, loss in enumerate((3.0, 2.0, 2.5, 2.6, 2.7, 2.8), 1):
        log.append({"step": step, "eval_loss": loss})
        state = SimpleNamespace(global_step=step, max_steps=100, log_history=log)
        with caplog.at_level(logging.WARNING, "nextword"):
            teller.on_evaluate(None, state, None)
    (said,) = (record.getMessage() for record in caplog.records)
    assert "lowest at step 2 (2.000) and is 2.700 at step 5" in said
