"""Items are dealt to judges: which ones, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from nextword.evaluation.survey.balanced_orders import balanced_orders
from nextword.results.records.survey_files import Form, FormPage, SurveyItem


def blocks_of(items: int, most: int) -> list[list[int]]:
    """Places of items in as few blocks as there have to be, of nearly equal size.

    >>> blocks_of(5, 2)
    [[0, 1], [2, 3], [4]]
    """
    return [block.tolist() for block in np.array_split(np.arange(items), -(-items // most))]


def dealt(
    blocks: Sequence[Sequence[str]],
    judges: int,
    items: Mapping[str, SurveyItem],
    systems: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
    first: Sequence[str] = (),
) -> list[Form]:
    """A form for each judge of each block.

    Each form has its items in an order of its own. The texts of an item stand in the rows of a Latin square over the
    systems, one row after the other, so that each system stands in each place equally often.

    Args:
        blocks: Ids of the items that one judge gets, checks included.
        judges: Of each block.
        items: By id.
        systems: By id of an item, its groups in the order of the systems.
        rng: Draws the orders of items.
        first: Ids of items that stand before the block in every form.
    """
    turn = count()
    forms: list[Form] = []
    for block in blocks:
        for _ in range(judges):
            pages = []
            for item in [*first, *(block[place] for place in rng.permutation(len(block)))]:
                groups = systems[item]
                rows = balanced_orders(len(groups))
                row = rows[next(turn) % len(rows)] if len(groups) > 1 else rows[0]
                units = [unit.id for at in row for unit in items[item].units if unit.group == groups[at]]
                pages.append(FormPage(item=item, order=units))
            forms.append(Form(id=str(len(forms) + 1), pages=pages))
    return forms
