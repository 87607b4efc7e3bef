"""What is not the same in two folders of outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any


def leaves(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Arrays, texts and numbers with their names."""
    if isinstance(content, dict) and "sha256" not in content:
        for key, inner in content.items():
            yield from leaves(inner, f"{name} > {key}" if name else key)
    else:
        yield name, content


def files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.json"))}


def between(before: Path, after: Path) -> Iterator[str]:
    """A line for everything that is not the same in both folders."""
    old, new = files(before), files(after)
    for file in sorted({*old, *new}):
        if file not in new or file not in old:
            yield f"{'missing' if file not in new else 'new'}: {file}"
        elif old[file].read_bytes() != new[file].read_bytes():
            was, now = (dict(leaves(json.loads(one[file].read_text(encoding="utf-8")))) for one in (old, new))
            for name in sorted({*was, *now}):
                if name not in now or name not in was:
                    yield f"{'missing' if name not in now else 'new'}: {file} > {name}"
                elif json.dumps(was[name]) != json.dumps(now[name]):
                    yield f"{file} > {name}: {difference(was[name], now[name])}"


def difference(was: Any, now: Any) -> str:
    """How far two arrays are apart, or the first line that differs."""
    if isinstance(was, dict) and isinstance(now, dict):
        if (was["shape"], was["dtype"]) != (now["shape"], now["dtype"]):
            return f"was {was['dtype']} {was['shape']}, is {now['dtype']} {now['shape']}"
        gaps = [abs(a - b) for a, b in zip(was["some"], now["some"], strict=True)]
        gaps += [abs(was["max_abs"] - now["max_abs"])]
        total = now["sum"] - was["sum"]
        return f"other bits: by {max(gaps):.3g} in the few places that are kept, by {total:.3g} in the sum"
    if isinstance(was, str) and isinstance(now, str):
        lines = zip_longest(was.splitlines(), now.splitlines(), fillvalue="(no more lines)")
        return next((f"line {n}: was {a!r}, is {b!r}" for n, (a, b) in enumerate(lines, 1) if a != b), "line ends")
    return f"was {was!r}, is {now!r}"[:400]
