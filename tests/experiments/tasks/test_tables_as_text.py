from __future__ import annotations

import pytest

from nextword.experiments.tasks.tables_as_text import MARKS, Linearisation
from nextword.runtime.corpora.logicnlg import CsvTable, TableSentence

GAMES = CsvTable("games", ("year", "city", "seats"), (("1896", "athens", "589 m"), ("2012", "east  london", "1,000 m")))

ROWS = (
    "<table> <caption> olympic games </caption>"
    " <sum_cell> 1589 <col_header> seats </col_header> </sum_cell>"
    " <avg_cell> 794.5 <col_header> seats </col_header> </avg_cell>"
    " <cell> 589 M <col_header> seats </col_header> <row_idx> 0 </row_idx>"
    " <max_rank> 2 </max_rank> <min_rank> -1 </min_rank> </cell>"
    " <cell> Athens <col_header> city </col_header> <row_idx> 0 </row_idx> </cell>"
    " <cell> 1,000 M <col_header> seats </col_header> <row_idx> 1 </row_idx>"
    " <max_rank> 1 </max_rank> <min_rank> -2 </min_rank> </cell>"
    " <cell> East London <col_header> city </col_header> <row_idx> 1 </row_idx> </cell>"
    " </table>"
)


def written(precomputation="complete", order="row", columns=(2, 1)):
    return Linearisation(precomputation, order)(TableSentence(GAMES, "olympic games", columns, "Any"))


def test_linked_columns_row_by_row_with_what_was_computed():
    assert written() == ROWS


def test_column_by_column_has_the_same_parts():
    found = written(order="column")
    cut = found.index("<cell>")
    assert found[:cut] == ROWS[:cut]
    assert [part.split()[0] for part in found[cut:].split("<cell> ")[1:]] == ["589", "1,000", "Athens", "East"]
    assert sorted(found.split()) == sorted(ROWS.split())


def test_published_totals_are_those_of_the_released_code():
    assert written("published") == ROWS.replace("1589 ", "1589.0 ")


def test_without_precomputation():
    assert written("none", columns=(0,)) == (
        "<table> <caption> olympic games </caption>"
        " <cell> 1896 <col_header> year </col_header> <row_idx> 0 </row_idx> </cell>"
        " <cell> 2012 <col_header> year </col_header> <row_idx> 1 </row_idx> </cell> </table>"
    )


@pytest.mark.parametrize("precomputation", ["complete", "published", "none"])
def test_all_marks_are_known(precomputation):
    found = {word for word in written(precomputation, columns=(0, 1, 2)).split() if word[0] == "<" and word[-1] == ">"}
    assert found <= set(MARKS)
    assert len(MARKS) == len(set(MARKS)) == 18
