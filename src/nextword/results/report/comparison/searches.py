"""What the methods' searches tried, with the validation loss of each combination and which was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from nextword.results.records import GridSearch, Results
from nextword.results.report.parts import formats


@dataclass(frozen=True)
class Tried:
    """One combination of settings."""

    settings: str
    nats: str
    """The validation loss, or why there is none."""
    chosen: bool


@dataclass(frozen=True)
class Search:
    """The search of one method."""

    method: str
    seed: int
    tried: tuple[Tried, ...]


def searches(results: Results) -> list[Search]:
    """Those of all methods that have one."""
    return [Search(method, one.seed, _tried(one)) for method, one in results.searches.items()]


def _tried(search: GridSearch) -> tuple[Tried, ...]:
    return tuple(
        Tried(
            settings=", ".join(f"{path} = {formats.plain(value)}" for path, value in one.settings.items()),
            nats=one.reason or "–" if one.nats is None else f"{one.nats:.4f}",
            chosen=one.settings == search.chosen,
        )
        for one in search.tried
    )
