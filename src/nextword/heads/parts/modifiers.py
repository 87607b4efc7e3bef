"""Modifiers: the ``+name:arguments`` parts of a head spec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from nextword.registry import Registry, UnknownNameError, did_you_mean


@dataclass(frozen=True)
class Part:
    """What may follow a ``+`` and has a page of its own; for whoever asks what there is.

    Args:
        name: How it is written.
        meaning: What it is, in a sentence.
        example: A whole spec with it.
        page: Name of its page, beside those of the heads.
    """

    name: str
    meaning: str
    example: str
    page: str


class Modifier(ABC):
    """What fills one field of a head's config from a ``+name:arguments`` part of its spec."""

    field: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    """The names it goes by in a spec."""
    usage: ClassVar[str]
    """How to write it, for messages."""
    parts: ClassVar[tuple[Part, ...]]
    """What ``nextword list heads`` shows of it."""

    @staticmethod
    @abstractmethod
    def parse(name: str, arguments: list[str]) -> Any:
        """The field's value; raises ValueError where the arguments do not fit."""

    @staticmethod
    @abstractmethod
    def write(value: Any) -> tuple[str, list[str]] | None:
        """The inverse of :meth:`parse`; None where the value is what stands without the modifier."""


modifiers: Registry[type[Modifier]] = Registry("head modifier")
"""All modifiers by the field they fill."""


def modifier_named(name: str) -> type[Modifier]:
    """The modifier that goes by this name in a spec.

    Raises:
        UnknownNameError: There is none; the message gives the nearest name and how all are written.
    """
    known = [modifiers.get(field) for field in modifiers.names()]
    for modifier in known:
        if name in modifier.names:
            return modifier
    near = did_you_mean(name, [known_name for modifier in known for known_name in modifier.names])
    raise UnknownNameError(f"unknown part '{name}'.{near} Known: {', '.join(m.usage for m in known)}.")
