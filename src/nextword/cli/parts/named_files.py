"""``NAME=FILE``: files on the command line, and the systems that they are of."""

from __future__ import annotations

from pathlib import Path


def systems_of(files: list[str]) -> dict[str, list[str]]:
    """By name, the files of a system; a file without a name has its own.

    Raises:
        ValueError: Two files without a name would be called the same.
    """
    systems: dict[str, list[str]] = {}
    nameless: dict[str, str] = {}
    for given in files:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():
            name, path = Path(given).stem, given
            if name in nameless:
                raise ValueError(
                    f"{nameless[name]} and {given} would both be called '{name}'; name them: one={nameless[name]} "
                    f"other={given} (or {name}= before both, if they are seeds of one system)"
                )
            nameless[name] = given
        systems.setdefault(name, []).append(path)
    return systems


def pair_of(given: str, option: str, example: str) -> tuple[str, str]:
    """Both sides of the sign.

    Raises:
        ValueError: One of them is missing.
    """
    left, equals, right = given.partition("=")
    if not (left and equals and right):
        raise ValueError(f"{option} {given}: write it like {option} {example}")
    return left, right
