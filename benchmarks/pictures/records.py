"""Numbers of the JSON records under ``docs/records``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

RECORDS = Path(__file__).parents[2] / "docs" / "records"
_NUMBER = r"−?[\d,]+(?:\.\d+)?"


@dataclass(frozen=True)
class Measured:
    """A value with the ends of its interval; all three are the same where a cell has no interval."""

    value: float
    low: float
    high: float


def measured(cell: str) -> Measured:
    """The numbers of a cell.

    >>> measured("**80.5** <sub>77.6–83.4</sub>")
    Measured(value=80.5, low=77.6, high=83.4)
    """
    found = re.fullmatch(rf"({_NUMBER})(?: <sub>({_NUMBER})–({_NUMBER})</sub>)?", cell.replace("**", ""))
    if found is None:
        raise ValueError(f"'{cell}' is no number with an interval")
    value, *ends = (part and float(part.replace(",", "").replace("−", "-")) for part in found.groups())
    low, high = (value if end is None else end for end in ends)
    return Measured(value, low, high)


def tables(name: str) -> list[list[dict[str, str]]]:
    """Every table of a record, as rows by column."""
    record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    parts = [part for section in record["sections"] for part in section["parts"] if "rows" in part]
    return [[dict(zip(part["columns"], row, strict=True)) for row in part["rows"]] for part in parts]
