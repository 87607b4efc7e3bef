"""Which place a draft goes on from, with shares of places that are given."""

from __future__ import annotations

from typing import Any

import torch

from nextword.functional.copy_scores import TextRead
from nextword.model.speculative_decoding.drafter import CopyHeadDrafter, Decided, Draft, KnownText


class Pointing:
    """A distribution whose token came from these places of a text, one row for each position."""

    def __init__(self, shares: list[list[float]], of: TextRead = "text") -> None:
        self.shares, self.of = torch.tensor(shares), of

    def __getitem__(self, rows: Any) -> Pointing:
        return self

    def token_positions(self, ids: Any) -> dict[str, torch.Tensor]:
        return {"pointer": self.shares}

    def positions_in(self) -> dict[str, TextRead]:
        return {"pointer": self.of}


def draft(text: KnownText, shares: list[float], of: TextRead = "text", padding: int = 0) -> Draft | None:
    distribution: Any = Pointing([[0.0] * padding + shares], of)
    (found,) = CopyHeadDrafter().drafts([text], Decided(distribution, torch.tensor([0]), [padding]), 3)
    return found


def test_place_where_most_words_agree_wins_over_the_larger_share() -> None:
    found = draft(KnownText([5, 9, 1, 7, 9, 2, 7, 9]), [0.0, 0.9, 0, 0, 0.1, 0, 0, 0])
    assert found == Draft([2, 7, 9], ("pointer", 4), 2, ("text", 5))


def test_larger_share_wins_among_equals_then_the_earlier_place() -> None:
    tokens = [9, 1, 9, 2, 9, 3, 4, 9]
    assert draft(KnownText(tokens), [0.1, 0, 0.2, 0, 0.1, 0, 0, 0]) == Draft([2, 9, 3], ("pointer", 2), 1, ("text", 3))
    assert draft(KnownText(tokens), [0.1, 0, 0.1, 0, 0.1, 0, 0, 0]) == Draft([1, 9, 2], ("pointer", 2), 1, ("text", 1))


def test_padding_before_the_text_is_not_counted() -> None:
    found = draft(KnownText([9, 1, 9]), [0.5, 0, 0], padding=4)
    assert found == Draft([1, 9], ("pointer", 3), 1, ("text", 1))


def test_word_of_its_own_is_followed_by_what_follows_the_one_that_was_guessed() -> None:
    source = [3, 4, 5, 6, 7]
    told = KnownText([1, 4, 8], source, instead=("source", 2))
    assert draft(told, [0.0] * 5, "source") == Draft([6, 7], "continued", 0, ("source", 3))
    assert draft(KnownText([1, 4, 8], source), [0.0] * 5, "source") is None
    assert draft(KnownText([1, 4, 8], source, instead=("source", 4)), [0.0] * 5, "source") is None


def test_word_that_stands_elsewhere_is_not_continued_from_the_refused_place() -> None:
    told = KnownText([1, 4, 3], [3, 4, 5, 6, 7], instead=("source", 2))
    assert draft(told, [0.5, 0, 0, 0, 0], "source") == Draft([4, 5, 6], ("pointer", 3), 1, ("source", 1))
