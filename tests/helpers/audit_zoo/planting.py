"""How a scorer gets into the zoo: a decorator for what is wrong, one for what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Specimen:
    """A scorer or model that an audit is run on.

    Args:
        name: Of the class or function that makes it.
        what: What is wrong with it, in one sentence; of a right one, what it is.
        make: Makes it, the same each time.
        named: Properties of which at least one must fail; none for what is right.
        twin: The right scorer that it would be without its fault; its own name for what is right.
        slow: Whether its audit takes more than a few seconds.
    """

    name: str
    what: str
    make: Callable[[], Any]
    named: frozenset[str]
    twin: str
    slow: bool = False


FAULTS: list[Specimen] = []
TWINS: list[Specimen] = []


def fault(*named: str, twin: Callable[[], Any], slow: bool = False) -> Callable[[Callable[[], Any]], Any]:
    """Plants what is below: a class or function whose docstring says what is wrong.

    Args:
        named: The properties whose failure names this fault rightly.
        twin: What it would be without the fault.
        slow: Whether its audit takes more than a few seconds.
    """

    def plant(make: Callable[[], Any]) -> Any:
        FAULTS.append(Specimen(make.__name__, _first_line(make), make, frozenset(named), twin.__name__, slow))
        return make

    return plant


def right(make: Callable[[], Any]) -> Any:
    """Puts a scorer without a fault beside those that have one."""
    TWINS.append(Specimen(make.__name__, _first_line(make), make, frozenset(), make.__name__))
    return make


def _first_line(make: Callable[[], Any]) -> str:
    return (make.__doc__ or "").strip().splitlines()[0]
