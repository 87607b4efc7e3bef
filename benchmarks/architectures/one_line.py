"""An error in one short line."""

from __future__ import annotations

_LONGEST = 220


def one_line(fault: BaseException) -> str:
    """Its class and the beginning of what it says."""
    text = " ".join(str(fault).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__
