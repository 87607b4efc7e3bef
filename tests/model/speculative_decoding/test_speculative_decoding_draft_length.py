"""How many tokens are drafted follows from what was accepted and from what passes cost."""

from __future__ import annotations

import pytest

from nextword.model.speculative_decoding.drafter import Draft
from nextword.model.speculative_decoding.speculative_decoding import Acceptance, FixedLength, LearnedLength, PassCost

GOOD, BAD = Draft([1] * 10, ("cache", 4), agreed=3), Draft([1] * 10, ("cache", 0), agreed=1)


def learned(right: int, cost: float = 0.01, draft: Draft = GOOD) -> LearnedLength:
    """What was learned of passes that each cost ``cost`` of one token more for each further token."""
    length = LearnedLength()
    for _ in range(60):
        length.count_draft(draft, min(10, right + 1), right)
        for width in range(1, 12):
            length.count_pass(1, width, 1 + cost * (width - 1))
    return length


def test_length_is_that_which_was_accepted() -> None:
    assert learned(10).chosen([GOOD]) == 10
    assert learned(4).chosen([GOOD]) == 4
    assert learned(0, cost=0.1).chosen([GOOD]) == 0


def test_dear_passes_make_short_drafts() -> None:
    assert learned(1, cost=0.01).chosen([GOOD]) >= 1
    assert learned(1, cost=2.5).chosen([GOOD]) == 0


def test_evidence_is_told_apart() -> None:
    length = learned(8)
    for _ in range(60):
        length.count_draft(BAD, 1, 0)
    assert length.chosen([GOOD]) >= 8
    assert length.chosen([BAD]) < 3


def test_nothing_guessed_is_nothing_drafted() -> None:
    assert LearnedLength().chosen([None]) == FixedLength(3).chosen([None]) == 0
    assert FixedLength(3).chosen([GOOD, None]) == 3
    with pytest.raises(ValueError, match=r"longest:.*least 1"):
        FixedLength(0)


def after_passes(length: LearnedLength, count: int, accepted: int, guessing: float, cost: float = 1.0) -> list[bool]:
    """Whether a guess came before each of so many passes, where a pass over one token costs 1."""
    asked = []
    for _ in range(count):
        asked.append(length.asks())
        length.count_pass(1, 1 + 4 * asked[-1], cost if asked[-1] else 1.0, guessing if asked[-1] else None)
        if asked[-1]:
            length.count_draft(GOOD, 4, accepted)
    return asked


def test_guesses_in_vain_become_rare_and_often_again() -> None:
    length = LearnedLength()
    asked = after_passes(length, 400, accepted=0, guessing=0.1)
    assert asked[:17] == [False, *[True] * 16]
    assert sum(asked[-80:]) == 10
    assert all(after_passes(length, 40, accepted=3, guessing=0.1)[8:])


def test_guesses_that_cost_more_than_they_give_become_rare() -> None:
    """Half a token a pass is accepted each time, in passes that cost twice as much: without guesses it goes faster."""
    dear, cheap = LearnedLength(), LearnedLength()
    for length, cost in ((dear, 2.2), (cheap, 1.8)):
        after_passes(length, 300, accepted=1, guessing=0.1, cost=cost)
    assert not dear.payoff.pays
    assert cheap.payoff.pays


def test_guess_is_part_of_what_a_short_draft_costs() -> None:
    """A token more in a dearer pass does not pay where guesses come for nothing, and does beside a dear guess."""
    for guessing, tokens in ((0.0, 0), (4.0, 1)):
        length = learned(1, cost=4.0)
        for _ in range(20):
            length.count_pass(1, 1, 1.0, guessing)
        assert length.chosen([GOOD]) == tokens


def test_untried_words_have_the_chance_of_rougher_kinds() -> None:
    acceptance = Acceptance()
    assert acceptance.chance(GOOD, 0) == 0.5
    for _ in range(50):
        acceptance.count(BAD, 1, 0)
    assert acceptance.chance(GOOD, 0) == 0.5
    assert acceptance.chance(Draft([1], "x", agreed=1), 0) < 0.05
    assert acceptance.chance(BAD, 0) < 0.05
    assert acceptance.expected(Draft([1], "x"), 3)[1:] == [acceptance.expected(Draft([1], "x"), 3)[1]] * 3


def test_cost_of_an_unmeasured_width_lies_between_its_neighbours() -> None:
    cost = PassCost()
    assert cost.ratio(5) == pytest.approx(1.08)
    cost._seconds = {1: 1.0, 5: 1.4, 9: 1.6}
    assert [cost.ratio(width) for width in (1, 3, 5, 7)] == pytest.approx([1, 1.2, 1.4, 1.5])
    assert cost.ratio(11) == pytest.approx(1.64)
    cost.count(5, 1000.0)
    assert cost.ratio(5) < 2


def test_one_slow_pass_does_not_rule_a_width_out_for_ever() -> None:
    cost = PassCost()
    cost.count(1, 1.0)
    cost.count(6, 9.0)
    assert cost.ratio(6) > 8
    for _ in range(600):
        cost.count(1, 1.0)
    assert cost.ratio(6) < 1.2
