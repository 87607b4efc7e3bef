"""The signs of a spec: terms between ``+``, arguments between ``,``, settings by name as ``key=value``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nextword.settings.overrides import read_value

_PIECE = re.compile(
    r"""
    "(?:\\.|[^"\\])*" | '[^']*'            # in quotes: one piece
    | (?<==)\s*[-+]?[\d_.]+[eE]\+(?=\d)    # the beginning of a number such as 1e+5
    | .                                    # any other sign
    """,
    re.VERBOSE | re.DOTALL,
)
_BARE = re.compile(r"[\w.@-]+")
"""Text that needs no quotes, unless it reads as something else (``true``, ``7``)."""


def split_outside(text: str, mark: str) -> list[str]:
    """The text between the marks, without those in quotes, in brackets and in numbers.

    >>> split_outside('f2:counts="a+b.npz"+mi', "+"), split_outside("cache:weight=1e+0", "+")
    (['f2:counts="a+b.npz"', 'mi'], ['cache:weight=1e+0'])
    >>> split_outside("2,layers=[0,-1]", ",")
    ['2', 'layers=[0,-1]']
    """
    parts, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        if piece == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def read_term(text: str) -> tuple[str, list[str]]:
    """Name, in lower case, and arguments of a term of a spec.

    >>> read_term("MoS:3, static"), read_term("cache")
    (('mos', ['3', 'static']), ('cache', []))
    """
    name, colon, rest = text.strip().partition(":")
    return name.strip().lower(), [argument.strip() for argument in split_outside(rest, ",")] if colon else []


def write_term(name: str, arguments: list[str]) -> str:
    """The inverse of ``read_term``."""
    return f"{name}:{','.join(arguments)}" if arguments else name


def read_arguments(arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Arguments that stand for themselves, in lower case, and settings by name.

    A value is read as on the command line, and ``none`` as nothing; text keeps its case.

    >>> read_arguments(["Paper", "alpha=0.5", "base=mle"])
    (['paper'], {'alpha': 0.5, 'base': 'mle'})

    Raises:
        ValueError: A name is given twice.
    """
    positional: list[str] = []
    named: dict[str, Any] = {}
    for argument in arguments:
        setting = re.fullmatch(r"(\w+)\s*=\s*(.*)", argument, re.DOTALL)
        if setting is None:
            positional.append(argument.lower())
            continue
        key = setting[1].lower()
        if key in named:
            raise ValueError(f"'{key}' is given twice")
        named[key] = _read(setting[2])
    return positional, named


def write_argument(name: str, value: Any) -> str:
    """A setting by name; ``read_arguments`` reads it.

    >>> write_argument("alpha", 0.5), write_argument("counts", "Mine/a.npz"), write_argument("layers", [0, -1])
    ('alpha=0.5', 'counts="Mine/a.npz"', 'layers=[0,-1]')
    """
    bare = isinstance(value, str) and _BARE.fullmatch(value) and _read(value) == value
    return f"{name}={value if bare else _toml(value)}"


def _read(text: str) -> Any:
    return None if text.lower() == "none" else read_value(text)


def _toml(value: Any) -> str:
    """A value as TOML, without spaces; and ``none``, which TOML has no sign for."""
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}={_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).lower() if isinstance(value, bool) else repr(value)
