"""Whether a folder belongs to a comparison: what is written down of it at first, held against what is asked for now."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from nextword.experiments.comparison.comparison_settings import plain
from nextword.experiments.comparison.method import Method
from nextword.results.records.claim import differences as claim_differences

CLAIM = "compare.json"
"""File of a comparison's folder that says which comparison it is."""
MAY_GROW = ("methods", "seeds")
"""Parts of a comparison that a later call may add to: the finished runs stay what they are."""


def differences(claim: dict[str, Any], asked: dict[str, Any], free: Set[str] = frozenset()) -> list[str]:
    """What keeps a comparison from going on in a folder, a line for each key; methods and seeds may be added.

    Args:
        claim: What the folder says.
        asked: What is asked for now.
        free: Keys, with dots, that may differ.

    >>> differences({"task": "lm", "seeds": {"0": 0}}, {"task": "expand", "seeds": {"0": 0, "1": 1}})
    ['task: "lm" there, "expand" asked for']
    """

    def may_differ(key: str) -> bool:
        return key in free or key == "nextword" or (key.split(".")[0] in MAY_GROW and _is_new_entry(key, claim))

    return claim_differences(_with_later_settings(claim, asked), asked, may_differ)


def _with_later_settings(claim: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """A claim with the settings that there were not yet when it was written, as they were then."""
    defaults = plain(Method(head="softmax"))
    methods = claim.get("methods")
    if isinstance(methods, dict):
        claim = {**claim, "methods": {title: {**defaults, **method} for title, method in methods.items()}}
    return _with_none(claim, asked)


def _with_none(claim: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """A claim with None for each setting that it lacks and that is None now: not set, as it was then."""
    unset = {key: None for key, value in asked.items() if value is None and key not in claim}
    inner = {
        key: _with_none(claim[key], value)
        for key, value in asked.items()
        if isinstance(value, dict) and isinstance(claim.get(key), dict)
    }
    return {**claim, **unset, **inner}


def _is_new_entry(key: str, claim: dict[str, Any]) -> bool:
    """Whether ``methods.<title>...`` belongs to a method (or seed) that was not there before."""
    part = key.split(".")[0]
    return not any(key == f"{part}.{name}" or key.startswith(f"{part}.{name}.") for name in claim.get(part, {}))
