"""Tables as text, in the forms that models of tables were trained with."""

from __future__ import annotations

from collections.abc import Iterator

from nextword.metrics import Table


def tapex_form(table: Table) -> str:
    """Columns and numbered rows, as TAPEX reads them.

    Source: TAPEX (Liu et al., 2022), section 2.3 and its tokenizer.

    >>> tapex_form(Table(header=["year", "city"], rows=[["1896", "athens"], ["2012", "london"]]))
    'col : year | city row 1 : 1896 | athens row 2 : 2012 | london'
    """
    rows = (f"row {number} : {' | '.join(row)}" for number, row in enumerate(table.rows, 1))
    return " ".join([f"col : {' | '.join(table.header)}", *rows])


def sentence_form(table: Table) -> str:
    """A sentence for the title and one for every row, as LogicNLG describes tables to GPT-2.

    Source: LogicNLG (Chen et al., 2020), its data loader. Differs: cells stay as they are, where it writes each word of
    a cell with a capital letter.

    >>> sentence_form(Table(header=["year", "city"], rows=[["1896", "athens"]], title="games"))
    'Given the table title of "games" . In row 1 , the year is 1896 , the city is athens .'
    """
    title = [f'Given the table title of "{table.title}" .'] if table.title else []
    return " ".join([*title, *_sentences(table)])


def _sentences(table: Table) -> Iterator[str]:
    for number, row in enumerate(table.rows, 1):
        cells = (f"the {name} is {cell}" for name, cell in zip(table.header, row, strict=True))
        yield f"In row {number} , {' , '.join(cells)} ."


def row_form(table: Table) -> str:
    """Title and rows in brief, as the entailment model of LogicNLG (NLI-Acc) reads them.

    Source: LogicNLG (Chen et al., 2020), ``NLI.py``, which reads the first 40 rows and the linked columns only.

    >>> row_form(Table(header=["year", "city"], rows=[["1896", "athens"]], title="games"))
    'title is : games . row 1 is : year is 1896 , city is athens ,'
    """
    title = [f"title is : {table.title} ."] if table.title else []
    return " ".join([*title, *_brief_rows(table)])


def _brief_rows(table: Table) -> Iterator[str]:
    for number, row in enumerate(table.rows, 1):
        cells = (f"{name} is {cell} ," for name, cell in zip(table.header, row, strict=True))
        yield f"row {number} is : {' '.join(cells)}"


def is_empty(table: Table) -> bool:
    """Whether there is no cell to compare a text with."""
    return not table.header or not table.rows
