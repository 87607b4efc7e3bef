"""Whether validation losses rise again: the model learns its training data by heart."""

from __future__ import annotations

from collections.abc import Sequence

from nextword.results.records import CurvePoint

RISE = 0.01
"""Nats per token; a smaller rise is no news."""
IN_A_ROW = 3
"""Validation losses above the lowest before it is said during a training: fewer may be chance."""


def risen(curve: Sequence[CurvePoint]) -> CurvePoint | None:
    """The lowest point of validation losses, where the last one is higher; None where it is not.

    >>> points = [CurvePoint(step=step, loss=loss) for step, loss in ((10, 5.0), (20, 4.0), (30, 4.5))]
    >>> risen(points).step, risen(points[:2])
    (20, None)
    """
    if not curve:
        return None
    lowest = min(curve, key=lambda point: point.loss)
    return lowest if curve[-1].loss > lowest.loss + RISE else None


def rises_steadily(curve: Sequence[CurvePoint]) -> bool:
    """Whether the last few losses all lie above the lowest one."""
    lowest = risen(curve)
    return lowest is not None and sum(point.step > lowest.step for point in curve) >= IN_A_ROW


def warning(curve: Sequence[CurvePoint], keep_best: bool, finished: bool) -> str:
    """What is said where validation losses have risen: since when, and what to do. Empty where they have not.

    Args:
        curve: Validation losses.
        keep_best: Whether the weights of the lowest one are kept.
        finished: Whether the training is over.
    """
    lowest = risen(curve)
    if lowest is None:
        return ""
    last = curve[-1]
    found = (
        f"validation loss was lowest at step {lowest.step} ({lowest.loss:.3f}) and is {last.loss:.3f} at step "
        f"{last.step}: the model learns the training data by heart"
    )
    if not keep_best:
        return f"{found}. Give training.keep_best=true, training.steps={lowest.step}, or more text."
    kept = f"This is the model of step {lowest.step}" if finished else f"The weights of step {lowest.step} are kept"
    return f"{found}. {kept}; training.patience={IN_A_ROW} would stop soon after it."
