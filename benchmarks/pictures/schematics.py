"""A schematic of each head: where the probability mass of its distribution comes from."""

from __future__ import annotations

import tomllib
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.patches import FancyBboxPatch, Rectangle

from nextword.results.report.template import EDGE, INK, METHODS, PAPER, SOFT
from pictures.style import Picture

DATA = Path(__file__).with_name("heads.toml")
_WIDTH, _HEIGHT, _INCH = 660, 200, 96
_COLOURS = (METHODS[0], METHODS[1], METHODS[2])
_INPUT, _WAY, _JOINED, _BARS, _END = (4, 138), (172, 318), (352, 448), (540, 596), 656
"""Left and right end of the columns, in pixels; of the bars, where they start and how long the most likely is."""
_SIZE = 11.0


def schematic(head: dict[str, Any]) -> Picture:
    """Boxes and arrows from left to right, then the most probable tokens as bars in the colours of the boxes."""
    return Picture(partial(_draw, head), _HEIGHT / _INCH, _WIDTH / _INCH)


def _draw(head: dict[str, Any], figure: Any) -> None:
    figure.set_layout_engine("none")
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set_xlim(0, _WIDTH)
    panel.set_ylim(_HEIGHT, 0)
    panel.axis("off")
    rows = head["rows"]
    step = _HEIGHT / len(rows)
    middle = [step * (place + 0.5) for place in range(len(rows))]
    ways = [place for place, row in enumerate(rows) if "by" in row]
    tall = min(step - 16, 66)
    for _, group in groupby(range(len(rows)), key=lambda place: rows[place]["from"]):
        places = list(group)
        centre = sum(middle[place] for place in places) / len(places)
        _box(panel, _INPUT, centre, 66 if len(places) > 1 else tall, rows[places[0]]["from"], EDGE)
        for place in places:
            # an input without a way of its own goes into the first one
            way = place if "by" in rows[place] else ways[0]
            at = middle[way] if len(ways) > 1 or len(rows) == 1 else _HEIGHT / 2
            _arrow(panel, (_INPUT[1], centre), (_WAY[0], at))
    for number, way in enumerate(ways):
        at = middle[way] if len(ways) > 1 or len(rows) == 1 else _HEIGHT / 2
        _box(panel, _WAY, at, tall, rows[way]["by"], _COLOURS[number], filled=True)
        _arrow(panel, (_WAY[1], at), (_JOINED[0], _HEIGHT / 2 + 0.25 * (at - _HEIGHT / 2)))
    _box(panel, _JOINED, _HEIGHT / 2, 76, head["joined"], EDGE)
    _arrow(panel, (_JOINED[1], _HEIGHT / 2), (_JOINED[1] + 30, _HEIGHT / 2))
    _bars(panel, head["tokens"])


def _bars(panel: Any, tokens: dict[str, list[float]]) -> None:
    longest = max(sum(shares) for shares in tokens.values())
    step = 38
    for place, (token, shares) in enumerate(tokens.items()):
        y, x = _HEIGHT / 2 + step * (place - (len(tokens) - 1) / 2), float(_BARS[0])
        panel.text(x - 7, y, token, ha="right", va="center", color=INK, fontsize=_SIZE)
        for number, share in enumerate(shares):
            width = (_END - _BARS[0]) * share / longest
            panel.add_patch(Rectangle((x, y - 11), width, 22, facecolor=_COLOURS[number], linewidth=0))
            x += width


def _box(
    panel: Any, ends: tuple[int, int], y: float, height: float, text: str, edge: str, filled: bool = False
) -> None:
    corner, style = (ends[0] + 3, y - height / 2 + 3), "round,pad=3,rounding_size=5"
    size = (ends[1] - ends[0] - 6, height - 6)
    panel.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, facecolor=edge if filled else "none", edgecolor=edge))
    colour = PAPER if filled else INK
    panel.text(sum(ends) / 2, y, text, ha="center", va="center", color=colour, fontsize=_SIZE, linespacing=1.15)


def _arrow(panel: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    look = {"arrowstyle": "-|>", "color": SOFT, "shrinkA": 2, "shrinkB": 1, "linewidth": 1.3}
    panel.annotate("", xy=end, xytext=start, arrowprops=look)


def _all() -> dict[str, dict[str, Any]]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


PICTURES = {f"heads/{name}": partial(schematic, head) for name, head in _all().items()}
