"""Whether a folder belongs to a comparison: what is written down of it at first, held against what is asked for now."""

from __future__ import annotations

import json
from collections.abc import Set
from pathlib import Path
from typing import Any

from nextword.comparison.comparison_settings import plain
from nextword.comparison.method import Method

CLAIM = "compare.json"
"""File of a comparison's folder that says which comparison it is."""
MAY_GROW = ("methods", "seeds")
"""Parts of a comparison that a later call may add to: the finished runs stay what they are."""


def read_claim(path: Path) -> dict[str, Any]:
    """The content of such a file.

    Raises:
        ValueError: It cannot be read, or is no such file.
    """
    try:
        claim = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ValueError(
            f"{path} cannot be read ({problem}); choose another folder (--out) or delete this one"
        ) from None
    if not isinstance(claim, dict):
        raise ValueError(f"{path} is not what a comparison writes; choose another folder (--out) or delete this one")
    return claim


def differences(claim: dict[str, Any], asked: dict[str, Any], free: Set[str] = frozenset()) -> list[str]:
    """What keeps a comparison from going on in a folder, a line for each key; methods and seeds may be added.

    Args:
        claim: What the folder says.
        asked: What is asked for now.
        free: Keys, with dots, that may differ.

    >>> differences({"task": "lm", "seeds": {"0": 0}}, {"task": "expand", "seeds": {"0": 0, "1": 1}})
    ['task: "lm" there, "expand" asked for']
    """
    before, now = _flat(_with_later_settings(claim)), _flat(json.loads(json.dumps(asked)))
    lines = []
    for key in sorted({*before, *now} - {"nextword"} - free):
        added = key not in before and key.split(".")[0] in MAY_GROW
        if before.get(key) == now.get(key) or (added and _is_new_entry(key, claim)):
            continue
        lines.append(f"{key}: {_shown(before, key)} there, {_shown(now, key)} asked for")
    return lines


def _with_later_settings(claim: dict[str, Any]) -> dict[str, Any]:
    """A claim whose methods have the settings that there were not yet when it was written, as they were then."""
    defaults = plain(Method(head="softmax"))
    methods = claim.get("methods")
    if not isinstance(methods, dict):
        return claim
    return {**claim, "methods": {title: {**defaults, **method} for title, method in methods.items()}}


def _is_new_entry(key: str, claim: dict[str, Any]) -> bool:
    """Whether ``methods.<title>...`` belongs to a method (or seed) that was not there before."""
    part = key.split(".")[0]
    return not any(key == f"{part}.{name}" or key.startswith(f"{part}.{name}.") for name in claim.get(part, {}))


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value} if value != {} else {}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _shown(values: dict[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "nothing"
