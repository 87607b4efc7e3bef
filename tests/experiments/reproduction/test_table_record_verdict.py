"""Which difference decides a claim; intervals against the textbook's t."""

from __future__ import annotations

import pytest

from nextword.experiments.reproduction.paper import PaperTable
from nextword.experiments.reproduction.table_numbers import CellValue
from nextword.experiments.reproduction.table_record import judged_claims
from nextword.results.records.reproduced_table import NO_SEED

T_2 = 4.302652729911275
"""0.975 quantile of Student's t with 2 degrees of freedom (printed tables: 4.303)."""


def table(better="higher", than="worse", **claim):
    return PaperTable.model_validate(
        {
            "title": "made up",
            "place": "section 1",
            "columns": [
                {"title": "Acc", "better": better, "measure": "acc"},
                {"title": "Other", "measure": "x", "better": "higher"},
            ],
            "rows": [
                {"title": "better", "values": [9.0, 1.0]},
                {"title": "worse", "values": [7.0, 1.0]},
                {"title": "people", "method": "human", "values": [8.5, 1.0]},
            ],
            "claims": [{"text": "it is", "comparisons": [{"row": "better", "than": than, "column": "Acc"}], **claim}],
        }
    )


def verdict(first, second, table=table, people=None, scale="small", **options):
    made = table(**options)
    cells = {(row.title, column.name): "none" for row in made.rows for column in made.columns}
    cells |= {("better", "Acc"): first, ("worse", "Acc"): second}
    goals = {("better", "Acc"): people, ("worse", "Acc"): people} if people else {}
    (claim,) = judged_claims(made, cells, goals, scale)
    return claim


def seeds(*values):
    return CellValue({str(seed): value for seed, value in enumerate(values)})


def test_the_difference_is_taken_seed_by_seed_and_its_interval_is_student_s():
    claim = verdict(seeds(5.0, 7.0, 9.0), seeds(4.0, 5.0, 8.0))
    (one,) = claim.comparisons
    half = T_2 * (1 / 3**0.5) / 3**0.5  # differences 1, 2, 1: standard deviation 1 / sqrt(3)
    assert (one.difference, one.seeds, one.printed) == (pytest.approx(4 / 3), 3, 2.0)
    assert (one.low, one.high) == (pytest.approx(4 / 3 - half), pytest.approx(4 / 3 + half))
    assert (claim.outcome, one.low < 0) == ("inconclusive", True)


@pytest.mark.parametrize(
    ("first", "second", "better", "outcome"),
    [
        ((5.0, 5.1, 5.2), (4.0, 4.1, 4.2), "higher", "supported"),
        ((5.0, 5.1, 5.2), (4.0, 4.1, 4.2), "lower", "not supported"),
        ((4.0, 4.1, 4.2), (5.0, 5.1, 5.2), "higher", "not supported"),
        ((4.0, 4.1, 4.2), (5.0, 5.1, 5.2), "lower", "supported"),
        ((5.0, 5.0, 5.0), (5.0, 5.0, 5.0), "higher", "inconclusive"),
        ((1.0, 5.0, 3.0), (3.0, 3.0, 3.0), "higher", "inconclusive"),
    ],
)
def test_the_side_of_zero_decides(first, second, better, outcome):
    assert verdict(seeds(*first), seeds(*second), better=better).outcome == outcome


@pytest.mark.parametrize(
    ("way", "outcome"), [("higher", "supported"), ("lower", "not supported"), (None, "not supported")]
)
def test_a_comparison_may_have_another_way_than_its_column(way, outcome):
    one = {"row": "better", "than": "worse", "column": "Acc", **({"better": way} if way else {})}
    claim = verdict(seeds(5.0, 5.1, 5.2), seeds(4.0, 4.1, 4.2), better="lower", comparisons=[one])
    assert claim.outcome == outcome


def test_a_way_of_its_own_asks_nothing_of_people():
    one = {"row": "better", "than": "worse", "column": "Acc", "better": "higher"}
    claim = verdict(seeds(5.0, 5.1), seeds(4.0, 4.1), better="human", people="none", comparisons=[one])
    assert (claim.outcome, claim.comparisons[0].printed) == ("supported", 2.0)


def test_one_seed_decides_nothing_and_says_so():
    claim = verdict(seeds(9.0), seeds(1.0))
    assert claim.outcome == "inconclusive"
    assert "one seed so far" in claim.reason


def test_only_seeds_that_both_have_are_compared():
    claim = verdict(CellValue({"0": 5.0, "1": 6.0, "7": 100.0}), CellValue({"1": 5.0, "0": 4.0, "3": 9.0}))
    assert (claim.comparisons[0].difference, claim.comparisons[0].seeds) == (1.0, 2)


def test_without_a_seed_that_both_have_nothing_is_compared():
    claim = verdict(CellValue({"0": 5.0}), CellValue({"1": 4.0}))  # the other seed of each failed
    assert (claim.outcome, claim.comparisons[0].difference) == ("not testable", None)


def test_a_number_that_no_training_gave_counts_no_seed():
    claim = verdict(CellValue({NO_SEED: 125.0}), CellValue({NO_SEED: 124.0}))
    assert claim.comparisons[0].seeds == 0
    assert claim.reason == "better − worse, Acc: +1; paper +2"


def test_what_no_training_gave_is_exact_and_a_tie_decides_nothing():
    same = CellValue({NO_SEED: 124.0})
    assert verdict(CellValue({NO_SEED: 125.0}), same).outcome == "supported"
    assert verdict(CellValue({NO_SEED: 123.0}), same).outcome == "not supported"
    assert verdict(same, same).outcome == verdict(seeds(1.0, 1.0), seeds(1.0, 1.0)).outcome == "inconclusive"


def test_rounding_decides_no_tie():
    near, far = CellValue({NO_SEED: 0.1 + 0.2}), CellValue({NO_SEED: 0.3})
    claim = verdict(near, far)
    assert (claim.outcome, claim.comparisons[0].difference) == ("inconclusive", 0.0)
    assert verdict(CellValue({NO_SEED: 0.3001}), far).outcome == "supported"


def test_a_number_may_stand_in_place_of_a_row():
    assert verdict(seeds(5.0, 5.1), "none", than=4.0).outcome == "supported"
    assert verdict(seeds(5.0, 5.1), "none", than=5.05).outcome == "inconclusive"


def test_nearer_to_people_is_better_on_both_sides():
    people = CellValue({NO_SEED: 10.0})
    above = verdict(seeds(11.0, 11.1, 11.2), seeds(7.0, 7.1, 7.2), better="human", people=people)
    (one,) = above.comparisons
    assert above.outcome == "supported"
    assert one.difference == pytest.approx((3 - 1 + 2.9 - 1.1 + 2.8 - 1.2) / 3)
    assert one.printed == pytest.approx(1.5 - 0.5)
    farther = verdict(seeds(14.0, 14.1, 14.2), seeds(7.0, 7.1, 7.2), better="human", people=people)
    assert farther.outcome == "not supported"


def test_where_people_have_no_number_nearness_is_not_tested():
    assert verdict(seeds(1.0, 2.0), seeds(1.0, 2.0), better="human", people="no row").outcome == "not testable"


def test_a_missing_number_is_not_testable_and_a_claim_goes_by_the_others():
    assert verdict("not at scale small", seeds(1.0, 2.0)).outcome == "not testable"
    made = table(
        comparisons=[
            {"row": "better", "than": "worse", "column": "Acc"},
            {"row": "better", "than": "worse", "column": "Other"},
        ]
    )
    cells = {(row.title, column.name): "none" for row in made.rows for column in made.columns}
    cells |= {("better", "Acc"): seeds(5.0, 5.1), ("worse", "Acc"): seeds(1.0, 1.1)}
    (claim,) = judged_claims(made, cells, {}, "small")
    assert claim.outcome == "supported"
    assert "1 of 2 comparisons have no numbers here" in claim.reason


def test_the_worst_comparison_is_the_claim_s():
    made = table(
        comparisons=[
            {"row": "better", "than": "worse", "column": "Acc"},
            {"row": "worse", "than": "better", "column": "Acc"},
        ]
    )
    cells = {(row.title, column.name): "none" for row in made.rows for column in made.columns}
    cells |= {("better", "Acc"): seeds(5.0, 5.1), ("worse", "Acc"): seeds(1.0, 1.1)}
    assert judged_claims(made, cells, {}, "small")[0].outcome == "not supported"


def test_what_cannot_be_tested_at_a_scale_says_why():
    reason = {"small": "it wants people"}
    claim = verdict("none", "none", not_testable=reason)
    assert (claim.outcome, claim.reason) == ("not testable", "it wants people")
    assert verdict("none", "none", not_testable=reason, scale="paper").reason.startswith(
        "better − worse, Acc: we have no number"
    )


def test_a_claim_about_a_judge_is_tested_where_the_user_has_the_judge():
    reason = {"small": "the judge is no part of a small run"}
    assert verdict(seeds(9.0, 9.1), seeds(1.0, 1.1), not_testable=reason).outcome == "supported"


def test_words_are_not_compared():
    assert verdict(CellValue(text="5:2"), seeds(1.0, 2.0)).outcome == "not testable"


@pytest.mark.parametrize(
    ("at_least", "firsts", "outcome"),
    [
        (1, [(5.0, 5.1), (0.0, 0.1)], "supported"),
        (2, [(5.0, 5.1), (0.0, 0.1)], "not supported"),
        (2, [(5.0, 5.1), (0.0, 5.0)], "inconclusive"),
        (1, [(0.0, 5.0), (0.0, 0.1)], "inconclusive"),
        (1, [(0.0, 0.1), None], "inconclusive"),
        (1, [(5.0, 5.1), None], "supported"),
    ],
)
def test_a_claim_may_ask_for_some_of_its_comparisons(at_least, firsts, outcome):
    names = ("Acc", "Other")
    made = table(
        comparisons=[{"row": "better", "than": "worse", "column": name} for name in names], at_least=at_least
    ).model_copy()
    cells = {(row.title, column.name): "none" for row in made.rows for column in made.columns}
    for name, first in zip(names, firsts, strict=True):
        cells |= {("worse", name): seeds(1.0, 1.1), ("better", name): seeds(*first) if first else "none"}
    assert judged_claims(made, cells, {}, "small")[0].outcome == outcome


def test_without_a_seed_in_common_nothing_is_compared():
    assert verdict(CellValue({"0": 5.0}), CellValue({"1": 4.0})).outcome == "not testable"


def test_a_comparison_may_have_a_way_of_its_own():
    near = [{"row": "better", "than": "worse", "column": "Acc", "better": "human"}]
    people = CellValue({NO_SEED: 10.0})
    first, second = seeds(9.0, 9.1, 9.2), seeds(14.0, 14.1, 14.2)
    assert verdict(first, second, comparisons=near, people=people).outcome == "supported"
    assert verdict(first, second, comparisons=near).outcome == "not testable"


def test_what_is_equal_with_every_seed_says_so():
    claim = verdict(seeds(100.0, 100.0, 100.0), seeds(100.0, 100.0, 100.0))
    assert "equal with all 3 seeds" in claim.reason


def judged(cells, people=None, **comparison):
    """A claim of one comparison of rows a, b, c and d in columns Acc and Other."""
    made = PaperTable.model_validate(
        {
            "title": "made up",
            "place": "section 1",
            "columns": [{"title": "Acc", "better": "higher"}, {"title": "Other", "better": "higher"}],
            "rows": [{"title": name, "values": [n, 2.0 * n]} for n, name in enumerate("abcd", 1)],
            "claims": [{"text": "it is", "comparisons": [comparison]}],
        }
    )
    everywhere = {(row, column): "none" for row in "abcd" for column in ("Acc", "Other")}
    (claim,) = judged_claims(made, everywhere | cells, people or {}, "small")
    return claim


def test_of_gains_the_difference_of_differences_is_taken_seed_by_seed():
    cells = {("a", "Acc"): seeds(9.0, 9.5), ("b", "Acc"): seeds(5.0, 5.0)}  # gains 4, 4.5
    cells |= {("c", "Acc"): seeds(8.0, 8.4), ("d", "Acc"): seeds(7.0, 7.0)}  # gains 1, 1.4
    claim = judged(cells, row="a", over="b", than="c", than_over="d", column="Acc")
    (one,) = claim.comparisons
    assert (one.difference, one.printed) == (pytest.approx((3.0 + 3.1) / 2), (1 - 2) - (3 - 4))
    assert (one.first, one.second, claim.outcome) == ("a over b", "c over d", "supported")


def test_a_gain_in_one_column_against_that_in_another_is_over_the_same_row():
    cells = {("a", "Acc"): seeds(9.0, 9.1), ("b", "Acc"): seeds(5.0, 5.0)}
    cells |= {("a", "Other"): seeds(20.0, 20.1), ("b", "Other"): seeds(5.0, 5.0)}
    claim = judged(cells, row="a", over="b", than="a", column="Acc", than_column="Other")
    assert claim.comparisons[0].difference == pytest.approx(4.0 - 15.0)
    assert claim.comparisons[0].printed == (1 - 2) - (2 - 4)
    assert claim.outcome == "not supported"


def test_a_gain_without_one_of_its_four_numbers_is_not_testable():
    cells = {(row, "Acc"): seeds(1.0, 2.0) for row in "abc"}
    assert judged(cells, row="a", over="b", than="c", than_over="d", column="Acc").outcome == "not testable"


def test_the_other_may_count_several_times():
    cells = {("a", "Acc"): seeds(10.52, 10.5), ("b", "Acc"): seeds(10.0, 10.0)}
    tenth = judged(cells, row="a", than="b", column="Acc", better="lower", times=1.1)
    assert (tenth.outcome, tenth.comparisons[0].difference) == ("supported", pytest.approx(10.51 - 11.0))
    assert (tenth.comparisons[0].second, tenth.comparisons[0].printed) == ("1.1 × b", pytest.approx(1 - 2.2))
    assert judged(cells, row="a", than="b", column="Acc", better="lower").outcome == "not supported"


def test_a_claim_says_how_many_of_its_comparisons_must_come_out():
    assert verdict(seeds(5.0, 5.1), seeds(1.0, 1.1)).needed is None
    assert verdict(seeds(5.0, 5.1), seeds(1.0, 1.1), at_least=1).needed == 1
