"""The settings under which held-out tokens are most likely, and what they gain."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nextword.evaluation.metrics.parts.intervals import bootstrap_ratio
from nextword.heads import head_spec
from nextword.heads.head import Head
from nextword.heads.head import registry as heads
from nextword.heads.parts.head_calibration import Calibration
from nextword.inference.scoring.calibration.calibration_results import CalibrationResults, TriedSetting
from nextword.inference.scoring.calibration.one_pass import OnePass, one_pass
from nextword.model.training_modes import measuring


def chosen(
    model: Any,
    ask: Callable[[], object],
    *,
    apply: bool = True,
    name: str = "model",
    data: list[str] | None = None,
) -> CalibrationResults:
    """Reads held-out tokens once and chooses.

    Args:
        model: An attached model.
        ask: Asks it, once, for the log-probability of each token.
        apply: Whether the model is left with what was chosen.
        name: What tables call it.
        data: What the tokens are of, for the record.

    Raises:
        ValueError: The head has nothing to choose, or no token was asked for.
    """
    began, reading = time.perf_counter(), read(model, ask, name)
    results = _results(reading, began, model=name, head=head_spec(model.next_word_head.config), data=data or [])
    if apply:
        reading.calibration.apply(model, results.settings)
    return results


def read(model: Any, ask: Callable[[], object], name: str = "model") -> OnePass:
    """Reads held-out tokens once; as in ``chosen``."""
    with measuring(model), one_pass(model, calibration_of(model, name)) as reading:
        ask()
    return reading


def calibration_of(model: Any, name: str = "model") -> Calibration:
    """What reads along with a pass of a model.

    Raises:
        ValueError: Its head has nothing to choose.
    """
    calibration: Calibration | None = model.next_word_head.calibration()
    if calibration is None:
        known = [name for name in heads.names() if heads.get(name).calibration is not Head.calibration]
        spec = head_spec(model.next_word_head.config)
        raise ValueError(
            f"{name}: must have a head whose settings can be chosen without training: {' or '.join(known)}, neither "
            f"gated nor cut to one part ('{spec}' given); attach one"
        )
    return calibration


def tuned(model: Any, ask: Callable[[], object]) -> dict[str, Any]:
    """The settings that ``chosen`` leaves a model with; none where its head has nothing to choose."""
    return {} if model.next_word_head.calibration() is None else dict(chosen(model, ask).settings)


def _results(reading: OnePass, began: float, **about: Any) -> CalibrationResults:
    best = reading.calibration.optimum()
    gained = best.log_probs - best.alone
    counted = np.isfinite(gained)
    if not counted.any():
        raise ValueError("texts: must have a token that is possible to the model (all have probability 0); give others")
    block, size = reading.blocks()
    sums = np.bincount(block[counted], gained[counted])
    counts = np.bincount(block[counted]).astype(float)
    interval = bootstrap_ratio(sums[counts > 0], counts[counts > 0])
    helps = interval is not None and interval[0] > 0
    nll, without = (-float(one[counted].mean()) for one in (best.log_probs, best.alone))
    falls_silent = not helps and best.silent is not None
    return CalibrationResults(
        tokens=len(gained),
        impossible=int((~counted).sum()),
        settings=best.silent if falls_silent and best.silent is not None else best.settings,
        best=best.settings,
        nll=without if falls_silent else nll,
        nll_without=without,
        gain=without - nll,
        low=None if interval is None else interval[0],
        high=None if interval is None else interval[1],
        block=size,
        helps=helps,
        seconds=time.perf_counter() - began,
        curve=[TriedSetting(settings=settings, nll=nats) for settings, nats in best.curve],
        **about,
    )
