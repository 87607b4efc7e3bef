"""Outcomes of claims: records of earlier versions have other words for them."""

from __future__ import annotations

import pytest

from nextword.results.records.reproduced_table import JudgedClaim


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("held", "supported"),
        ("not held", "not supported"),
        ("undecided", "inconclusive"),
        ("supported", "supported"),
        ("not testable", "not testable"),
    ],
)
def test_outcomes_of_earlier_versions_are_read(written: str, read: str) -> None:
    claim = JudgedClaim.model_validate({"text": "t", "outcome": written, "reason": "r"})
    assert claim.outcome == read
    assert claim.model_dump()["outcome"] == read


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="outcome"):
        JudgedClaim.model_validate({"text": "t", "outcome": "perhaps", "reason": "r"})
