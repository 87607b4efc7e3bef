"""What stands in a cell before its experiment was run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nextword.experiments.reproduction.paper import PaperTable, find_table
from nextword.experiments.reproduction.table_numbers import ExperimentResults
from nextword.experiments.reproduction.table_record import renewed, table_record
from tests.helpers.made_up_results import make_sample

pytestmark = pytest.mark.usefixtures("counting_paper")


def test_what_was_not_run_yet_is_told_from_what_is_not_done_at_the_scale():
    table = find_table("counting/table-1")
    small = table_record("counting/table-1", table, {}, "small", "x")
    assert [{cell.missing for cell in row.cells} for row in small.rows] == [
        {"not run yet"},
        {"not run yet"},
        {"not at scale small"},
    ]
    paper = table_record("counting/table-1", table, {}, "paper", "x")
    assert [{cell.missing for cell in row.cells} for row in paper.rows] == [
        {"not at scale paper"},
        {"not at scale paper"},
        {"not run yet"},
    ]


def test_a_cell_without_a_number_says_why():
    table = find_table("counting/table-1")
    without = SimpleNamespace(results=None, record=None, settings={})
    record = table_record("counting/table-1", table, dict.fromkeys(table.experiments, without), "small", "x")
    reasons = {cell.missing for cell in record.rows[0].cells}
    assert reasons == {"the experiment was not run", "training.learning_rate is not set"}


def test_a_sum_over_experiments_without_a_seed_in_common_says_so():
    column = {"title": "Acc", "method": "MoS", "measure": "acc@2", "experiment": "counting", "plus": "again"}
    table = PaperTable.model_validate(
        {"title": "made up", "place": "section 1", "columns": [column], "rows": [{"title": "a"}]}
    )
    ran = {name: ExperimentResults({}, make_sample(seeds=(seed,))) for name, seed in (("counting", 1), ("again", 2))}
    (row,) = table_record("counting/table-1", table, ran, "small", "x").rows
    assert row.cells[0].missing == "its two numbers cannot be added"


def test_a_renewed_record_keeps_its_numbers_under_today_s_rows_notes_and_claims():
    table = find_table("counting/table-1")
    old = table_record("counting/table-1", table, {}, "small", "x")
    ours = [3.0, 1.0]
    kept = [
        row.model_copy(update={"cells": [measured(row.cells[0], value), *row.cells[1:]]})
        for row, value in zip(old.rows, ours, strict=False)
    ]
    aged = old.model_copy(update={"rows": kept, "claims": [], "note": "an old note", "title": "an old title"})
    new = renewed(aged)
    assert [row.title for row in new.rows] == ["Softmax", "Cache", "A large one"]
    assert [row.cells[0].value for row in new.rows] == [3.0, 1.0, None]
    assert new.rows[0].cells[0].by_seed == {"0": 2.5, "1": 3.5}
    assert new.rows[2].cells[0].missing == "not at scale small"
    assert (new.title, new.note, new.command) == (table.title, None, "x")
    assert [(claim.text, claim.outcome) for claim in new.claims] == [
        ("A cache is better than a softmax.", "supported"),
        ("A large one is better than a small one.", "not testable"),
    ]
    assert renewed(new) == new


def test_a_row_that_a_record_lacks_was_not_run_yet():
    table = find_table("counting/table-1")
    old = table_record("counting/table-1", table, {}, "small", "x")
    new = renewed(old.model_copy(update={"rows": old.rows[:1]}))
    assert {cell.missing for cell in new.rows[1].cells} == {"not run yet"}


def test_what_stands_for_the_paper_s_own_is_that_of_the_table_s_experiments_at_the_scale():
    table = find_table("counting/table-1")
    small, paper = (table_record("counting/table-1", table, {}, scale, "x").differs for scale in ("small", "paper"))
    assert small == ["A tiny model stands for a large one."]
    assert paper == ["The order of the numbers is not stated."]


def test_a_row_of_one_scale_is_not_there_at_the_other():
    table = find_table("counting/table-1")
    rows = [row.model_copy(update={"only": "small"}) if row.title == "Cache" else row for row in table.rows]
    with_control = table.model_copy(update={"rows": rows, "claims": []})
    small, paper = (table_record("counting/table-1", with_control, {}, scale, "x").rows for scale in ("small", "paper"))
    assert [row.title for row in small] == ["Softmax", "Cache", "A large one"]
    assert [row.title for row in paper] == ["Softmax", "A large one"]


def test_a_number_measured_elsewhere_needs_no_run():
    table = find_table("counting/table-1")
    rows = [
        row.model_copy(update={"elsewhere": {"nll": 2.0 - place}}) if place < 2 else row
        for place, row in enumerate(table.rows)
    ]
    record = table_record("counting/table-1", table.model_copy(update={"rows": rows}), {}, "small", "x")
    assert [row.cells[0].value for row in record.rows] == [2.0, 1.0, None]
    assert (record.claims[0].outcome, record.claims[0].comparisons[0].difference) == ("supported", -1.0)


def measured(cell, value):
    by_seed = {"0": value - 0.5, "1": value + 0.5}
    return cell.model_copy(update={"value": value, "missing": None, "by_seed": by_seed})
