"""What a folder was begun for: written down at first, and held against what is asked for later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nextword.settings.setting_names import named


def read_manifest(path: Path, writer: str) -> dict[str, Any]:
    """The content of such a file.

    Args:
        path: The file.
        writer: What writes such files, for the message: "a comparison".

    Raises:
        ValueError: It cannot be read, or is no such file.
    """
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ValueError(
            f"{path} cannot be read ({problem}); choose another folder ({named('out')}) or delete this one"
        ) from None
    if not isinstance(manifest, dict):
        raise ValueError(
            f"{path} is not what {writer} writes; choose another folder ({named('out')}) or delete this one"
        )
    return manifest


def differences(
    manifest: dict[str, Any], asked: dict[str, Any], may_differ: Callable[[str], bool] = lambda key: False
) -> list[str]:
    """In what two sets of settings differ, a line for each key, tables within tables with dots.

    Args:
        manifest: What the folder says.
        asked: What is asked for now.
        may_differ: Of which keys a difference does not count.

    >>> differences({"model": "gpt2", "training": {"steps": 5}}, {"model": "gpt2", "training": {"steps": 6}})
    ['training.steps: 5 there, 6 asked for']
    """
    before, now = _flat(manifest), _flat(json.loads(json.dumps(asked)))
    return [
        f"{key}: {_shown(before, key)} there, {_shown(now, key)} asked for"
        for key in sorted({*before, *now})
        if not (key in before and key in now and before[key] == now[key]) and not may_differ(key)
    ]


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value} if value != {} else {}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _shown(values: dict[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "nothing"
