"""Top-k and nucleus against definitions written out for one row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextword.functional.probability import expect_truncation, truncated


def kept_by_hand(probs: list[float], top_k: int | None, top_p: float | None) -> set[int]:
    """Ids kept: the k best, and of these the shortest prefix whose share of their sum reaches p."""
    order = sorted(range(len(probs)), key=lambda i: -probs[i])[:top_k]
    total, kept, mass = sum(probs[i] for i in order), set(), 0.0
    for i in order:
        if top_p is not None and mass >= top_p * total:
            break
        kept.add(i)
        mass += probs[i]
    return kept


# no p here can be hit exactly by sums of these weights, where rounding would decide
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=12, unique=True),
    st.none() | st.integers(1, 14),
    st.none() | st.sampled_from([0.0503, 0.3137, 0.5003, 0.7777, 0.9907, 1.0]),
)
def test_keeps_what_the_definition_keeps(weights: list[int], top_k: int | None, top_p: float | None) -> None:
    probs = [weight / sum(weights) for weight in weights]
    log_probs = torch.tensor([probs], dtype=torch.float64).log()
    found = truncated(log_probs, top_k, top_p)
    wanted = kept_by_hand(probs, top_k, top_p)
    kept = found.isfinite()
    assert kept[0].nonzero()[:, 0].tolist() == sorted(wanted)
    assert torch.equal(found[kept], log_probs[kept])


def test_nothing_asked_changes_nothing() -> None:
    log_probs = torch.randn(3, 5)
    assert truncated(log_probs) is log_probs
    assert truncated(log_probs, top_p=1.0) is log_probs


@pytest.mark.parametrize(("top_k", "top_p"), [(0, None), (None, 0.0), (None, 1.1)])
def test_senseless_cuts_are_refused(top_k: int | None, top_p: float | None) -> None:
    with pytest.raises(ValueError, match=r"here: top_[kp]"):
        expect_truncation("here", top_k, top_p)
