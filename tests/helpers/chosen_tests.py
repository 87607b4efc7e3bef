"""Which tests run: a covering array of a product is fast, and of the slow tests each day has its share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, groupby
from typing import Any
from zlib import crc32

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Takes ``--slice``, for continuous integration."""
    parser.addoption(
        "--slice", metavar="DAY/DAYS", help="of the slow tests the share of this day: all run in DAYS days"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what is slow, and keeps a day's share of it where that is asked for."""
    mark_what_is_covered(items)
    if share := config.getoption("--slice"):
        day, days = map(int, share.split("/"))
        others = [
            item
            for item in items
            if item.get_closest_marker("slow") and crc32(item.nodeid.encode()) % days != day % days
        ]
        config.hook.pytest_deselected(items=others)
        left_out = {*others}
        items[:] = [item for item in items if item not in left_out]


def mark_what_is_covered(items: Iterable[pytest.Item]) -> None:
    """Marks as slow what a test's other cases cover; of a test with ``few(n)``, whose cases take long, all but n.

    Cases of one test are next to each other in ``items``.
    """
    for (_, name), cases in groupby(items, key=lambda item: (item.parent, getattr(item, "originalname", item.name))):
        fast = [case for case in cases if not case.get_closest_marker("slow")]
        if len(fast) > 1:
            chosen = covering([values_of(case) for case in fast], turn=crc32(name.encode()))
            few = fast[0].get_closest_marker("few")
            kept = {*chosen[: few.args[0] if few else None]}
            for place, case in enumerate(fast):
                if place not in kept:
                    case.add_marker(pytest.mark.slow)


def covering(cases: list[tuple[Any, ...]], turn: int = 0) -> list[int]:
    """So few of these cases that every value of two parameters, or every pair of values of more, is in one of them.

    A parameter that follows from another, as what is expected does from what is given, does not count; cases of one
    parameter are all chosen. Those with most that is new come first. Among equals the search begins with case
    ``turn``, so that tests of the same product come to see different pairs.

    Examples:
        >>> covering([(head, family) for head in ("cache", "pg", "mos") for family in ("gpt2", "t5")])
        [0, 3, 4]
        >>> cubes = [(head, family, mode) for head in range(4) for family in range(3) for mode in range(2)]
        >>> len(cubes), len(covering(cubes))
        (24, 12)
        >>> len(covering([("text", 4), ("texts", 5), ("two texts", 9)]))  # the length follows from the text
        3
    """
    columns = [*zip(*cases, strict=True)]
    free = [
        column
        for place, column in enumerate(columns)
        if not any(follows(column, other) for other in columns[:place])
        and not any(follows(column, other) and not follows(other, column) for other in columns[place + 1 :])
    ]
    has = [{*combinations(enumerate(case), 1 if len(free) < 3 else 2)} for case in zip(*free, strict=True)]
    missing, chosen = set().union(*has), []
    order = [(place + turn) % len(cases) for place in range(len(cases))]
    while missing:
        chosen.append(max(order, key=lambda place: len(has[place] & missing)))
        missing -= has[chosen[-1]]
    return chosen


def follows(column: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether a case's value of one parameter is known from that of the other."""
    return len({*zip(column, other, strict=True)}) == len({*other})


def values_of(case: pytest.Item) -> tuple[Any, ...]:
    """The values of a case's parameters: texts and numbers as written (1 is not True), others by which they are."""
    callspec = getattr(case, "callspec", None)
    values = callspec.params.values() if callspec else ()
    return tuple(repr(value) if isinstance(value, str | int | float | None) else id(value) for value in values)
