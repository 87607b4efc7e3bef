"""Matplotlib figures as SVG that can stand inside an HTML page, several on one page."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nextword.results.report.template import EDGE, FAINT, INK, SOFT, themed

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Format:
    """How much room a figure has. Each is drawn for both, since a wide one made small cannot be read."""

    name: str
    width: float  # inches
    label: int  # characters of a method's name

    @property
    def narrow(self) -> bool:
        """Whether legends stand above and panels below each other."""
        return self is NARROW


WIDE = Format("wide", 11.6, 30)  # a window
NARROW = Format("narrow", 3.7, 18)  # a telephone of 390 CSS pixels, less the margins of the page
FORMATS = (WIDE, NARROW)

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # real text: it can be read aloud, searched, and written in any script
    "text.parse_math": False,  # a label may hold dollar signs
    "font.size": 10.0,
    "axes.edgecolor": EDGE,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.7,
    "lines.markersize": 5.0,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}


@contextmanager
def figure(name: str, room: Format, height: float) -> Iterator[Figure]:
    """A figure in the page's style, ``height`` in inches; ``name`` keeps its ids apart from those of other figures."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Figure instead of pyplot: no global state, no window system. The fonts that come with matplotlib only measure the
    # text, the page draws it with its own, so that a glyph they lack is no news.
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = Figure(figsize=(room.width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn


def legend(drawn: Figure, handles: Sequence[Artist], room: Format, *, above: bool = False) -> None:
    """A legend outside of the panels, to the right or, where the figure is narrow or ``above`` is set, over them.

    Over them, it has as many columns as fit the figure: nothing lies beyond its edge.
    """
    if not above and not room.narrow:
        drawn.legend(handles=handles, loc="outside right upper", handlelength=3.2, fontsize=9.5)
        return
    for columns in range(len(handles), 0, -1):
        made = drawn.legend(
            handles=handles, loc="outside upper left", ncols=columns, handlelength=3.2, fontsize=9.5, columnspacing=1.4
        )
        if made.get_window_extent().width <= drawn.bbox.width:
            return
        if columns > 1:
            made.remove()


def inline(drawn: Figure, name: str, room: Format, description: str) -> str:
    """The figure as an ``<svg>`` element, to be called inside the ``with`` of ``figure``.

    Ids get name and format in front, colours become those of the page's theme, namespaces and the style sheet (which
    would apply to the whole page) are taken out, and ``description`` is what a screen reader says.
    """
    name = f"{name}-{room.name}"
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    drawn.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    root = ET.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in {"metadata", "style"}:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): _own(_local(key), text, name) for key, text in element.attrib.items()}
    root.attrib = {
        "viewBox": root.attrib["viewBox"], "class": room.name, "role": "img", "aria-label": description
    }  # fmt: skip
    # Natural width, in CSS pixels per typographic point; the page lets it shrink, never grow.
    root.set("style", f"width:{float(root.attrib['viewBox'].split()[2]) * 4 / 3:.0f}px")
    return ET.tostring(root, encoding="unicode")


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _own(key: str, text: str, name: str) -> str:
    if key == "id":
        return f"{name}-{text}"
    if key == "href":
        return text.replace("#", f"#{name}-", 1)
    text = re.sub(r" ?font-family: [^;]*;", "", text)  # the page's
    return themed(re.sub(r"url\(#", f"url(#{name}-", text))
