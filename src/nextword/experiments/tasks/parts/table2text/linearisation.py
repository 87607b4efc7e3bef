"""A table as one line of text with marks around its parts, as PLOG writes it for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from nextword.experiments.tasks.parts.table2text.column_facts import FACTS, ColumnFacts, Precomputation
from nextword.runtime.corpora.logicnlg import TableSentence

Order = Literal["row", "column"]
"""Whether cells come row by row or column by column."""

_NAMES = ("table", "caption", "cell", "col_header", "row_idx", "max_rank", "min_rank", "sum_cell", "avg_cell")

MARKS = tuple(mark for name in _NAMES for mark in (f"<{name}>", f"</{name}>"))
"""The marks, each of which is to be one token."""


class Linearisation:
    """Writes the linked columns of a table as text; what is computed of a column is computed once.

    The caption comes first, then sum and average of each column, then the cells, each with its column's name, its row
    (from 0), and its rank from above and below. White space is made single.

    Source: the released code of PLOG (Liu et al., 2022). Differs: the space before a mark is part of the mark's token.

    Args:
        precomputation: What is computed of the columns.
        order: How the cells follow one another.

    Examples:
        >>> from nextword.runtime.corpora.logicnlg import CsvTable
        >>> table = CsvTable("t", ("city", "games"), (("athens", "2"), ("london", "3")))
        >>> sentence = TableSentence(table, "hosts", (1,), "London had three")
        >>> Linearisation("none", "row")(sentence)  # doctest: +NORMALIZE_WHITESPACE
        '<table> <caption> hosts </caption> <cell> 2 <col_header> games </col_header> <row_idx> 0 </row_idx> </cell>
         <cell> 3 <col_header> games </col_header> <row_idx> 1 </row_idx> </cell> </table>'
    """

    def __init__(self, precomputation: Precomputation, order: Order) -> None:
        facts: Callable[[Sequence[str]], ColumnFacts] = FACTS[precomputation]
        self._order = order
        self._facts = cache(lambda table, column: facts([row[column] for row in table.rows]))

    def __call__(self, one: TableSentence) -> str:
        """The text of a sentence's table."""
        table = one.table
        facts = {column: self._facts(table, column) for column in one.columns}
        parts = ["<table>", _marked("caption", one.title)]
        parts += [_totals(facts[column], table.header[column]) for column in one.columns]
        rows = range(len(table.rows))
        if self._order == "row":
            places = [(row, column) for row in rows for column in one.columns]
        else:
            places = [(row, column) for column in one.columns for row in rows]
        parts += [_cell(facts[column], table.header[column], row) for row, column in places]
        return " ".join(" ".join([*parts, "</table>"]).split())


def _marked(name: str, content: str) -> str:
    return f"<{name}> {content} </{name}>"


def _totals(facts: ColumnFacts, header: str) -> str:
    if facts.totals is None:
        return ""
    name = _marked("col_header", header)
    total, average = facts.totals
    return f"{_marked('sum_cell', f'{total} {name}')} {_marked('avg_cell', f'{average} {name}')}"


def _cell(facts: ColumnFacts, header: str, row: int) -> str:
    content = f"{facts.cells[row]} {_marked('col_header', header)} {_marked('row_idx', str(row))}"
    if facts.ranks is not None:
        above, below = facts.ranks[row]
        content += f" {_marked('max_rank', str(above))} {_marked('min_rank', str(below))}"
    return _marked("cell", content)
