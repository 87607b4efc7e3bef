"""What became of each test with a head, next to the bare model: passed, different by design, or unexpected."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixins.one_class import PASSED

BY_DESIGN = Path(__file__).with_name("by_design.toml")
ANY = "*"

Outcomes = Mapping[str, Sequence[str]]
"""Test to its outcome and reason."""


@dataclass(frozen=True)
class Difference:
    """A test that passes on bare models and is not to pass with some heads.

    Args:
        test: Its name.
        why: The reason, in one line.
        backbones: On which models.
        heads: With which heads.
    """

    test: str
    why: str
    backbones: Sequence[str] = (ANY,)
    heads: Sequence[str] = (ANY,)

    def covers(self, backbone: str, head: str, test: str) -> bool:
        """Whether it speaks of this test."""
        return test == self.test and _among(backbone, self.backbones) and _among(head, self.heads)

    @property
    def title(self) -> str:
        """How a message names it."""
        return f"{self.test} ({', '.join(self.backbones)} with {', '.join(self.heads)})"


def _among(name: str, names: Sequence[str]) -> bool:
    return ANY in names or name in names


def read_differences(path: Path = BY_DESIGN) -> list[Difference]:
    """The committed list."""
    return [Difference(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["difference"]]


@dataclass(frozen=True)
class Verdict:
    """One backbone with one head.

    Args:
        bare_passed: How many tests the bare model passes; what it fails or skips is not asked of a head.
        by_design: Tests that differ, and why.
        unexpected: Tests that differ, and how.
        stale: Titles of differences that no longer show: the test passes.
    """

    backbone: str
    head: str
    bare_passed: int = 0
    by_design: dict[str, str] = field(default_factory=dict)
    unexpected: dict[str, str] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)

    @property
    def passed(self) -> int:
        """Of those that the bare model passes."""
        return self.bare_passed - len(self.by_design) - len(self.unexpected)


def verdict(backbone: str, head: str, bare: Outcomes, own: Outcomes, listed: Iterable[Difference]) -> Verdict:
    """Holds a head's outcomes against the bare model's and the list.

    A test that is skipped with a head and was not without one differs as much as one that fails.
    """
    asked = [test for test, (outcome, _) in bare.items() if outcome == PASSED]
    found = Verdict(backbone, head, len(asked))
    listed = list(listed)
    for test in asked:
        outcome, reason = own.get(test, ("missing", "no such test"))
        known = [one for one in listed if one.covers(backbone, head, test)]
        if outcome == PASSED:
            found.stale.extend(one.title for one in known)
        elif known:
            found.by_design[test] = known[0].why
        else:
            found.unexpected[test] = f"{outcome}: {reason}"
    return found


def never_asked(bare: Mapping[str, Outcomes], listed: Iterable[Difference]) -> list[str]:
    """Titles of differences in tests that no bare model passes, so that nothing shows whether they are true.

    Args:
        bare: Every backbone's outcomes without a head.
        listed: The list.
    """

    def is_asked(one: Difference) -> bool:
        mine = (outcomes for name, outcomes in bare.items() if _among(name, one.backbones))
        return any(outcomes.get(one.test, ("", ""))[0] == PASSED for outcomes in mine)

    return [one.title for one in listed if not is_asked(one)]


def as_row(found: Verdict) -> dict[str, Any]:
    """A verdict as the record has it; reasons by design stand in the list, once."""
    return {
        "backbone": found.backbone,
        "head": found.head,
        "bare_passed": found.bare_passed,
        "passed": found.passed,
        "by_design": sorted(found.by_design),
        "unexpected": found.unexpected,
    }
