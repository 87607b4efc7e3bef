"""What stands in a cell before its experiment was run."""

from __future__ import annotations

import pytest

from nextword.reproduction.paper import find_table
from nextword.reproduction.table_record import table_record

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
