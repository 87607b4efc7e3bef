"""When validation losses have risen, and what is said."""

from __future__ import annotations

from nextword.finetuning.overfitting import risen, rises_steadily, warning
from nextword.records import CurvePoint


def curve(*losses: float) -> list[CurvePoint]:
    return [CurvePoint(step=10 * place, loss=loss) for place, loss in enumerate(losses, 1)]


def test_a_curve_that_falls_or_hardly_rises_is_no_news() -> None:
    for losses in ((), (3.0,), (3.0, 2.0), (3.0, 2.0, 2.005)):
        assert risen(curve(*losses)) is None
        assert warning(curve(*losses), keep_best=True, finished=True) == ""


def test_one_higher_loss_may_be_chance() -> None:
    assert not rises_steadily(curve(3.0, 2.0, 2.5))
    assert rises_steadily(curve(3.0, 2.0, 2.5, 2.4))
    assert not rises_steadily(curve(3.0, 2.0, 2.5, 1.9))


def test_it_says_since_when_and_what_to_do() -> None:
    losses = curve(3.0, 2.0, 2.5)
    alone = warning(losses, keep_best=False, finished=True)
    assert "lowest at step 20 (2.000) and is 2.500 at step 30" in alone
    assert alone.endswith("Give training.keep_best=true, training.steps=20, or more text.")
    assert "The weights of step 20 are kept" in warning(losses, keep_best=True, finished=False)
    assert "This is the model of step 20" in warning(losses, keep_best=True, finished=True)
