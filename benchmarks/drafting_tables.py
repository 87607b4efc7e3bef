"""The tables of ``docs/drafting.md`` as Markdown, from the newest rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from table_parts import NOTHING, Row, Targets, at_least, markdown, measured, measured_on

_WAYS = {
    "prompt lookup (transformers)": "prompt lookup (transformers)",
    "draft=prompt": '`draft="prompt"`',
    "draft=places": '`draft="head"`',
    "draft=places, always 10": "places, always 10",
    "assistant": "an assistant",
    "bound": "bound",
}
"""Ways by the name of their column."""
_JUDGED = {True: "draft=places", False: "draft=prompt"}
"""Which way the targets are about: by places where the head has any."""


def drafting(data: Path, wanted: Targets) -> str:
    """Words a pass, what that is beside prompt lookup, and speed against plain decoding."""
    body, every = [], []
    for where, rows in measured(data, "drafting"):
        found = {row["way"]: row for row in rows}
        judged = _JUDGED["draft=places" in found]
        aims = _aims(where, wanted["drafting"])
        title = f"{where['model']}: {where['data']}, {where['text']} ({found[judged]['texts']} texts)"
        for column, said in (("words_a_pass", "words a pass"), ("of_lookup", "of lookup's"), ("speed", "speed")):
            cells = [_cell(found.get(way), column, aims.get(column) if way == judged else None) for way in _WAYS]
            body.append([title if column == "words_a_pass" else "", said, *cells])
        every += rows
    if not body:
        return NOTHING
    return f"{measured_on({}, every)}\n\n{markdown(['model: texts', '', *_WAYS.values()], body)}"


def _aims(where: Row, wanted: Targets) -> Targets:
    """The targets of a size, with which the name of a model ends, and of some data, which go before."""
    size = next((targets for name, targets in wanted["size"].items() if where["model"].endswith(name)), {})
    return {**size, **wanted["data"].get(where["data"], {})}


def _cell(row: Row | None, column: str, target: float | None) -> str:
    if row is None or row[column] == "nan":
        return "–"
    return at_least(row[column], target)


_PARTS = {
    "plain": "plain",
    "the loop alone": "the loop alone",
    "guesses alone": "with guesses, of which none is drafted",
    "draft=places": '`draft="head"`',
}
"""Ways that show what the loop and the guesses cost, by the name of their column."""


def costs(data: Path, wanted: Targets) -> str:
    """Milliseconds a word of the loop without guesses, with guesses in vain, and with drafts."""
    body, every = [], []
    for where, rows in measured(data, "drafting"):
        found = {row["way"]: row for row in rows}
        if found.keys() >= _PARTS.keys():
            cells = [f"{found[way]['ms_a_word']} ({found[way]['speed']})" for way in _PARTS]
            body.append([f"{where['model']}: {where['data']}, {where['text']}", *cells])
            every += rows
    if not body:
        return NOTHING
    return f"{measured_on({}, every)}\n\n{markdown(['ms a word (speed)', *_PARTS.values()], body)}"


def choices(data: Path, wanted: Targets) -> str:
    """Words a pass by how a place is chosen: a row for each way, a column for the texts of each model."""
    groups = measured(data, "drafting_choice")
    if not groups:
        return NOTHING
    ways = list(dict.fromkeys((row["way"], row["tree"]) for _, rows in groups for row in rows))
    body = []
    for way in ways:
        cells = [
            next((row["words_a_pass"] for row in rows if (row["way"], row["tree"]) == way), "") for _, rows in groups
        ]
        body.append([_way(*way), *(f"{float(cell):.2f}" if cell else "–" for cell in cells)])
    head = [f"{where['model']}: {where['data']}, {where['text']}" for where, _ in groups]
    return markdown(["chosen place", *head], body)


def _way(name: str, tree: str) -> str:
    return name if tree == "1" else f"{name}, the best of {tree} places"


TABLES: dict[str, Callable[[Path, Targets], str]] = {"drafting": drafting, "costs": costs, "choices": choices}
"""What the page has, by the name of its markers."""
