from __future__ import annotations

import math

import pytest

from nextword.results.records.token_trace import TraceRecord
from nextword.results.report.inspection_page import difference
from tests.helpers.made_up_traces import STORY, MadeUp

PLAIN = MadeUp(STORY, gate=0.0).record("plain")
CACHE = MadeUp(STORY, gate=0.4).record("cache")


def shifted(by: dict[int, float]) -> TraceRecord:
    """The plain model, with other log-probabilities at some places of its columns."""
    log_prob = [value + by.get(at, 0.0) for at, value in enumerate(PLAIN.tokens.log_prob)]
    return PLAIN.model_copy(update={"tokens": PLAIN.tokens.model_copy(update={"log_prob": log_prob})})


def test_largest_difference_comes_first() -> None:
    found = difference(PLAIN, shifted({3: 0.5, 10: -2.0, 20: 0.004, 30: 1.0}))
    assert [(row.index, pytest.approx(row.nats)) for row in found.rows] == [(11, -2.0), (31, 1.0), (4, 0.5)]
    assert (found.rows[0].amount, found.rows[0].factor) == ("2.00", f"{math.exp(2.0):.2f}")


@pytest.mark.parametrize(
    ("nats", "factor"), [(0.1, "1.11"), (-3.0, "20"), (9.0, "8,103"), (10.0, "over 10,000"), (-math.inf, "∞")]
)
def test_factors_are_rounded_to_what_can_be_read(nats: float, factor: str) -> None:
    (row,) = difference(PLAIN, shifted({3: nats})).rows
    assert row.factor == factor


def test_totals_are_those_of_the_whole_text() -> None:
    found = difference(PLAIN, CACHE)
    assert found.total == pytest.approx(sum(CACHE.tokens.log_prob) - sum(PLAIN.tokens.log_prob))
    assert found.of == pytest.approx(-sum(PLAIN.tokens.log_prob))
    assert found.gained[0] - found.lost[0] == pytest.approx(found.total)
    assert found.gained[1] + found.lost[1] == len(PLAIN.tokens.log_prob)


def test_a_token_that_one_thinks_impossible_comes_first_and_is_left_out_of_the_totals() -> None:
    found = difference(PLAIN, shifted({3: 0.5, 10: -math.inf}))
    assert (found.rows[0].index, found.rows[0].amount, found.rows[0].factor) == (11, "∞", "∞")
    assert (found.total, found.never) == (pytest.approx(0.5), 1)
    assert found.of == pytest.approx(-sum(PLAIN.tokens.log_prob) + PLAIN.tokens.log_prob[10])
    both = shifted({10: -math.inf})
    assert (difference(both, both).rows, difference(both, both).never) == ((), 0)


def test_a_row_shows_its_token_in_context() -> None:
    (row,) = difference(PLAIN, shifted({16: 1.0})).rows
    assert row.before + row.token + row.after in STORY
    assert row.token == PLAIN.texts["text"].pieces[row.index].strip()
    assert row.before.endswith(" ")


def test_a_line_end_is_shown_by_its_name() -> None:
    at = PLAIN.texts["text"].pieces.index("\n")
    (row,) = difference(PLAIN, shifted({at - 1: 1.0})).rows
    assert row.token == "\\n"


def test_the_same_model_twice_has_no_rows() -> None:
    found = difference(PLAIN, PLAIN)
    assert (found.rows, found.total) == ((), 0.0)


def test_other_tokens_are_refused() -> None:
    other = MadeUp(STORY.replace("rope", "wheel")).record("cache")
    with pytest.raises(ValueError, match="'plain'"):
        difference(PLAIN, other)
    with pytest.raises(ValueError, match=r"24[0-9] tokens\)"):
        difference(PLAIN, MadeUp(STORY + " So it is.").record("cache"))


def test_the_same_ids_of_another_text_are_refused() -> None:
    other = MadeUp(STORY.replace("rope", "boats")).record("cache")
    assert other.texts["text"].ids == PLAIN.texts["text"].ids
    with pytest.raises(ValueError, match=r"' boats'\)"):
        difference(PLAIN, other)


def test_another_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match=r"token \(1 and 5"):
        difference(PLAIN, PLAIN.model_copy(update={"first": 5}))
