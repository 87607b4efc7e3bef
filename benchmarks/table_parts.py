"""Helpers for tables of measurements: rows by condition, values with targets, and their origin."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rows import newest, read

Row = dict[str, str]
Targets = Mapping[str, Any]

_SETTING = {
    "head_cost": ("what", "size", "batch", "length", "new", "device", "dtype"),
    "training_cost": ("suite", "size", "batch", "length", "device", "dtype"),
    "decoding_speed": ("size", "batch", "beams", "prompt", "new", "device", "dtype", "processor"),
    "sweeps": ("sweep", "size", "vocabulary", "batch", "length", "device", "dtype"),
    "profile_step": ("size", "batch", "length", "device", "dtype", "model"),
    "throughput": ("part", "device", "dtype"),
    "startup": (),
    "text_memory": (),
    "audit_cost": ("size",),
    "datastore": ("data", "keys", "width"),
    "serving_speed": ("engine", "engine_version", "size", "requests", "new", "read_before", "length"),
    "long_memory": ("size", "batch", "length", "device", "dtype"),
    "drafting": ("model", "data", "text"),
    "drafting_choice": ("model", "data", "text"),
}
"""Columns that say under what conditions a row was measured, by table."""

_NAME = {
    "startup": "name",
    "throughput": "name",
    "profile_step": "operation",
    "text_memory": "tokens",
    "audit_cost": "effort",
    "serving_speed": "head",
    "long_memory": "name",
    "drafting": "way",
}
"""Columns that name a row; elsewhere it is the model."""

_ONE_RUN = {"profile_step", "datastore", "drafting_choice"}
"""Tables whose rows belong together as they were measured: the newest run is shown."""

NOTHING = "*(not measured yet)*"

NO_TARGETS: Targets = defaultdict(dict)
"""Shows numbers alone."""

_ORIGIN = {"nextword", "torch", "transformers", "processor", "threads", "commit", "plugins", "allocator", "numpy"}
"""Columns that say where a row was measured."""


def targets(path: Path) -> Targets:
    """What is to be reached, by part."""
    with path.open("rb") as file:
        return tomllib.load(file)


def measured(data: Path, table: str) -> list[tuple[dict[str, str], list[Row]]]:
    """The newest row of everything under every condition, grouped by condition."""
    setting = _SETTING[table]
    rows = read(data / f"{table}.csv")
    if table in _ONE_RUN:
        latest = {tuple(row[key] for key in setting): row["date"] for row in rows}
        found = [row for row in rows if latest[tuple(row[key] for key in setting)] == row["date"]]
    else:
        found = newest(rows, (*setting, _NAME.get(table, "model")))

    def condition(row: Row) -> tuple[str, ...]:
        return tuple(row[key] for key in setting)

    order = list(dict.fromkeys(condition(row) for row in found))
    found.sort(key=lambda row: order.index(condition(row)))
    return [(dict(zip(setting, key, strict=True)), list(group)) for key, group in groupby(found, condition)]


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def every_row(data: Path, table: str) -> str:
    """All rows of a table as they were measured, each with its day and without the rest of its origin."""
    rows = read(data / f"{table}.csv")
    if not rows:
        return NOTHING
    head = [name for name in rows[0] if name not in _ORIGIN]
    body = [[row[name][:10] if name == "date" else row[name].replace("|", "\\|") for name in head] for row in rows]
    return f"{measured_on({}, rows)}\n\n{markdown(head, body)}"


def at_most(value: str, target: float | None) -> str:
    """A measured number beside its target, which it must not exceed."""
    return _against(value, target, target is not None and float(value) <= target, "≤")


def at_least(value: str, target: float | None) -> str:
    """A measured number beside its target, which it must reach."""
    return _against(value, target, target is not None and float(value) >= target, "≥")


def _against(value: str, target: float | None, met: bool, sign: str) -> str:
    if target is None:
        return f"{float(value):.2f}"
    # a number that misses by less than is printed is shown with the digit that tells
    shown = f"{float(value):.2f}" if met or float(f"{float(value):.2f}") != target else f"{float(value):.3f}"
    return f"{shown} ({sign} {target:.2f}, {'met' if met else '**missed**'})"


def measured_on(where: Mapping[str, str], rows: Sequence[Row], *, rounds: bool = True) -> str:
    """Where rows were measured, by the newest of them, and how often, unless every column says so itself."""
    row = max(rows, key=lambda one: one["date"])
    said = [
        row["processor"],
        f"{row['threads']} threads",
        f"torch {row['torch']}" if "torch" in row else "",
        where.get("dtype", ""),
    ]
    said += [
        rounds_of(rows) if rounds and "rounds" in row else "",
        f"allocator {row['allocator']}" if "allocator" in row else "",
        row["date"][:10],
    ]
    return ", ".join(part for part in said if part)


def rounds_of(rows: Sequence[Row]) -> str:
    """How often each was measured; the least and the most where rows differ."""
    found = sorted({int(row["rounds"]) for row in rows})
    return f"{'–'.join(map(str, dict.fromkeys((found[0], found[-1]))))} round{'s' * (found != [1])}"
