"""Format numbers as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

NOTHING = "–"
"""Placeholder for a missing number."""

SHARES = ("fraction", "share", "proportion")
"""Beginnings of units whose values between 0 and 1 are shown as percentages, for example "fraction of prompts"."""


def value(number: float, unit: str, decimals: int | None) -> str:
    """Format ``number`` with ``decimals`` (None: four significant digits), as a percentage if ``is_share(unit)``.

    >>> value(0.93512, "fraction of prompts", 1), value(21.5, "nats", 2), value(0.00012345, "nats", None)
    ('93.5', '21.50', '0.0001234')

    A number that rounds to zero has no sign:

    >>> value(-0.0004, "nats", 3), value(-0.0006, "nats", 3)
    ('0.000', '-0.001')
    """
    scaled = number * scale(unit)
    return f"{scaled:z.4g}" if decimals is None else f"{scaled:z.{decimals}f}"


def number(measured: float) -> str:
    """Format a number for text: from 1000 on as an integer with commas, otherwise with four significant digits.

    >>> number(12568.4), number(135.25), number(0.000123456), number(4.0)
    ('12,568', '135.2', '0.0001235', '4')
    """
    return f"{measured:,.0f}" if abs(measured) >= 1000 else f"{measured:z.4g}"


def signed(number: float, unit: str, decimals: int | None) -> str:
    """Format a difference like ``value``, with its sign unless it rounds to zero.

    >>> signed(0.15, "fraction", 1), signed(-1.0, "nats", 2), signed(-0.0001, "nats", 3)
    ('+15.0', '-1.00', '0.000')
    """
    text = value(number, unit, decimals)
    return text if text.startswith("-") or not text.strip("0.") else f"+{text}"


def is_share(unit: str) -> bool:
    """Whether values of ``unit`` are shown as percentages."""
    return unit.lower().startswith(SHARES)


def scale(unit: str) -> float:
    """Factor by which values of ``unit`` are multiplied in reports: 100 for fractions, otherwise 1."""
    return 100.0 if is_share(unit) else 1.0


def unit_name(unit: str) -> str:
    """The unit as reports show it: a fraction as a percentage.

    >>> unit_name("fraction of prompts"), unit_name("nats per token")
    ('% of prompts', 'nats per token')
    """
    if not is_share(unit):
        return unit
    return " ".join(["%", *unit.split()[1:]])


def interval(low: str, high: str) -> str:
    """Format an interval. If a number has a sign, "to" replaces the dash.

    >>> interval("1.2", "3.4"), interval("-0.1", "0.2"), interval("+0.5", "+1.2")
    ('1.2–3.4', '-0.1 to 0.2', '+0.5 to +1.2')
    """
    return f"{low} to {high}" if set("+-") & set(low + high) else f"{low}\N{EN DASH}{high}"


def count(number: float) -> str:
    """Format a count with three or four digits and a multiplier.

    >>> count(640), count(12_345), count(124_439_808), count(2_500_000_000)
    ('640', '12.3 k', '124 M', '2.50 G')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{digits(number / size)} {letter}"
    return f"{number:.0f}"


def digits(number: float) -> str:
    """Format a number with three digits, or with all digits before the point.

    >>> digits(0.5), digits(12.34), digits(1234.5)
    ('0.50', '12.3', '1234')
    """
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def seconds(number: float) -> str:
    """Format a duration in seconds.

    >>> seconds(8.25), seconds(192), seconds(7260)
    ('8.25 s', '3 min 12 s', '2 h 01 min')
    """
    if number < 60:
        return f"{digits(number)} s"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def four_digits(number: float) -> str:
    """Format a number with four significant digits or all digits before the point, without an exponent.

    >>> four_digits(28475.0), four_digits(1e-05), four_digits(0.25), four_digits(8.0)
    ('28475', '0.00001', '0.25', '8')
    """
    return f"{number:.0f}" if abs(number) >= 1000 else f"{Decimal(f'{number:z.4g}'):f}"


def seeds(count: int) -> str:
    """The number of seeds in words.

    >>> seeds(1), seeds(3)
    ('one seed', '3 seeds')
    """
    return "one seed" if count == 1 else f"{count} seeds"


def probability(number: float) -> str:
    """Format a probability with three decimals, or in scientific notation if it would be rounded to zero."""
    return f"{number:.3f}" if number >= 0.0005 or number == 0 else f"{number:.0e}"


def p_value(p: float) -> str:
    """Format a p-value with two to four decimals: more, the smaller it is.

    >>> p_value(0.5), p_value(0.0312), p_value(0.00012)
    ('0.50', '0.031', '0.0001')
    """
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}" if p >= 0.001 else f"{p:.4f}"


def setting(name: str) -> str:
    """The name of a setting or a data field, with spaces for underscores."""
    return name.replace("_", " ")


def plain(thing: Any) -> str:
    """Format any JSON value on one line."""
    if thing is None:
        return "none"
    if isinstance(thing, bool):
        return "yes" if thing else "no"
    if isinstance(thing, int):
        return f"{thing:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if abs(thing) >= 10_000 else str(thing)
    if isinstance(thing, float):
        return f"{thing:z.6g}"
    if isinstance(thing, str):
        return thing
    if isinstance(thing, dict) and {"value", "unit", "n"} <= thing.keys():
        # a measured value, which a task may record for the initial checkpoint
        return f"{value(thing['value'], thing['unit'], None)} {unit_name(thing['unit'])} (n = {plain(thing['n'])})"
    return json.dumps(thing, ensure_ascii=False)


def pairs(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) pairs of ``content``, the settings or data fields of a record, as text."""
    return [(setting(name), plain(thing)) for name, thing in content.items()]


def spans(headings: Iterable[str]) -> list[tuple[str, int]]:
    """Merge equal headings of neighbouring columns. Each result has a heading and its number of columns.

    >>> spans(["a", "a", "", "a"])
    [('a', 2), ('', 1), ('a', 1)]
    """
    return [(heading, len(list(members))) for heading, members in groupby(headings)]


def listing(parts: Sequence[str]) -> str:
    """Join words with commas and "and".

    >>> listing(["a"]), listing(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else list(parts))
