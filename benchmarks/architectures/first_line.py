"""An error in one short line."""

from __future__ import annotations

_LONGEST = 220


def first_line(fault: BaseException) -> str:
    """Its class and what it says first; a ValueError is for users, so its text is enough."""
    lines = str(fault).strip().splitlines()
    text = " ".join(lines[0].split()) if lines else ""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__
