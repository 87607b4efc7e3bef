"""A drawing becomes two files: NAME.svg for light pages and NAME-dark.svg for dark ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextword.results.report import svg
from nextword.results.report.template import THEMES

WIDTH = 5.4
"""Inches of a chart: 518 pixels. On a telephone it is scaled by 0.7, to letters of 10 pixels."""

_FONTS = "system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif"
_DARK = dict(THEMES.values())


@dataclass(frozen=True)
class Picture:
    """What draws into a figure of matplotlib, and its size in inches. All colours are light ones of ``THEMES``."""

    draw: Callable[[Any], None]
    height: float
    width: float = WIDTH


def write(name: str, picture: Picture, folder: Path) -> list[Path]:
    """Draws it into ``folder``, and gives the two files.

    Raises:
        ValueError: A colour has no dark one.
    """
    path = folder / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with svg.figure(path.stem, picture.height, picture.width) as figure:
        picture.draw(figure)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(path, format="svg", transparent=True, metadata=nothing)
    light = re.sub(r"(font: [^;\"]*?px) [^;\"]*", rf"\1 {_FONTS}", path.read_text(encoding="utf-8"))
    path.write_text(light, encoding="utf-8")
    dark = path.with_name(f"{path.stem}-dark.svg")
    dark.write_text(re.sub(r"<[^>]*>", lambda tag: _dark(tag[0]), light), encoding="utf-8")
    return [path, dark]


def _dark(tag: str) -> str:
    def of(colour: re.Match[str]) -> str:
        if colour[0] not in _DARK:
            raise ValueError(f"{colour[0]}: must be a light colour of THEMES, so that a dark page has one too")
        return _DARK[colour[0]]

    return re.sub(r"(?<=[ :\"])#[0-9a-f]{6}\b", of, tag)
