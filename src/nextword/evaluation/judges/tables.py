"""Writes tables as text, in the formats that published models were trained on."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Literal

from nextword.evaluation.metrics import Table

Cells = Literal["text", "pandas"]
"""How the cells of a table are read: "text" (unchanged) or "pandas" (as ``pandas.read_csv`` reads them)."""


def read_by_pandas(table: Table) -> Table:
    """The ``table`` as ``pandas.read_csv`` reads it, with all cells as text.

    Numbers are reformatted, and missing cells become "nan". A column of whole numbers with a missing cell becomes
    floating point: 589 is read as "589.0".

    >>> read_by_pandas(Table(header=["year", "seats"], rows=[["1896", "589"], ["2012", ""]])).rows
    [['1896', '589.0'], ['2012', 'nan']]
    """
    import pandas  # type: ignore[import-untyped]

    if is_empty(table):
        return table
    written = io.StringIO()
    csv.writer(written).writerows([table.header, *table.rows])
    written.seek(0)
    found = pandas.read_csv(written, index_col=False)
    rows = [list(row) for row in zip(*(map(str, found[name]) for name in found.columns), strict=True)]
    return table.model_copy(update={"header": [str(name) for name in found.columns], "rows": rows})


READERS: dict[Cells, Callable[[Table], Table]] = {"text": lambda table: table, "pandas": read_by_pandas}
"""The function for each way of reading cells."""


def note_on_cells(cells: Cells) -> str:
    """A note for the report on how cells are read. Empty if the cells are unchanged."""
    return "" if cells == "text" else f", cells as {cells} reads them"


def tapex_form(table: Table) -> str:
    """Write the columns and the numbered rows of ``table`` in TAPEX's format, without white space at the end.

    Source: TAPEX (Liu et al., 2022), section 2.3 and its tokenizer.

    >>> tapex_form(Table(header=["year", "city"], rows=[["1896", "athens"], ["2012", "london"]]))
    'col : year | city row 1 : 1896 | athens row 2 : 2012 | london'
    """
    rows = (f"row {number} : {' | '.join(row)}" for number, row in enumerate(table.rows, 1))
    return " ".join([f"col : {' | '.join(table.header)}", *rows]).strip()


def sentence_form(table: Table) -> str:
    """Describe ``table`` with one sentence for the title and one per row, as LogicNLG's input for GPT-2 does.

    Source: LogicNLG (Chen et al., 2020), its data loader. Differs: cells are unchanged, but LogicNLG capitalises each
    word of a cell.

    >>> sentence_form(Table(header=["year", "city"], rows=[["1896", "athens"]], title="games"))
    'Given the table title of "games" . In row 1 , the year is 1896 , the city is athens .'
    """
    sentences = [f'Given the table title of "{table.title}" .'] if table.title else []
    for number, row in enumerate(table.rows, 1):
        cells = (f"the {name} is {cell}" for name, cell in zip(table.header, row, strict=True))
        sentences.append(f"In row {number} , {' , '.join(cells)} .")
    return " ".join(sentences)


def row_form(table: Table) -> str:
    """Write title and rows of ``table`` in the short format that the entailment model of LogicNLG reads (NLI-Acc).

    Source: LogicNLG (Chen et al., 2020), ``NLI.py``. Differs: that script reads only the first 40 rows, and only the
    columns that the text is about.

    >>> row_form(Table(header=["year", "city"], rows=[["1896", "athens"]], title="games"))
    'title is : games . row 1 is : year is 1896 , city is athens ,'
    """
    parts = [f"title is : {table.title} ."] if table.title else []
    for number, row in enumerate(table.rows, 1):
        cells = (f"{name} is {cell} ," for name, cell in zip(table.header, row, strict=True))
        parts.append(f"row {number} is : {' '.join(cells)}")
    return " ".join(parts)


def is_empty(table: Table) -> bool:
    """Whether the table has no cells."""
    return not table.header or not table.rows
