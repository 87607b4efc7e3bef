"""Modifiers: the ``+name:arguments`` parts of a head spec."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from nextword.registry import Registry


class Modifier(Protocol):
    """One ``+name:arguments`` part of a spec."""

    field: ClassVar[str]

    @staticmethod
    def parse(arguments: list[str]) -> Any:
        """The field's value for these arguments; raises ValueError where they do not fit."""
        ...

    @staticmethod
    def write(value: Any) -> list[str] | None:
        """The inverse of :meth:`parse`; None where the value is what stands without the modifier."""
        ...


modifiers: Registry[type[Modifier]] = Registry("head modifier")
"""All modifiers by name."""
