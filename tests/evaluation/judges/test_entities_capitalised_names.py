"""Names told by capital letters, by hand."""

from __future__ import annotations

import pytest

from nextword.evaluation.judges.entities import CapitalisedNames


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the king met Ann Lee in Rome, Oslo and New\tYork", ["Ann Lee", "Rome", "Oslo", "New York"]),
        ("Rain fell. Snow followed in June", ["June"]),  # what begins a sentence may be any word
        ("Ann Lee left. Ann stayed.", ["Ann Lee"]),
        ("The Who and I", []),  # stop words
        ("he told the US and us", ["US"]),
        ("a dog of Mr. Smith's and St. John’s", ["Smith", "John"]),
        ("seen by O'Neill at Rolls-Royce in the U.S.", ["O'Neill", "Rolls-Royce", "U.S"]),
        ("Title\nRain fell", []),
        ("서울 Élan 서울", ["Élan"]),
        ("2 Mai. 3.", ["Mai"]),
        ("", []),
    ],
)  # fmt: skip
def test_names_by_hand(text: str, names: list[str]) -> None:
    assert list(CapitalisedNames().entities([text])) == [names]


def test_an_entry_for_each_text() -> None:
    assert list(CapitalisedNames().entities(["in Rome", "nowhere"])) == [["Rome"], []]
