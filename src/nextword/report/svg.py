"""Matplotlib figures as SVG that can stand inside an HTML page, several on one page."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1f2328"
FAINT = "#d8dde3"

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # real text: it can be read aloud, searched, and written in any script
    "text.parse_math": False,  # a label may hold dollar signs
    "font.size": 10.0,
    "axes.edgecolor": "#8b949e",
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.7,
    "lines.markersize": 5.0,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}


@contextmanager
def figure(name: str, width: float, height: float) -> Iterator[Figure]:
    """A figure in the page's style; ``name`` keeps its ids apart from those of other figures."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Figure instead of pyplot: no global state, no window system. The fonts that come with matplotlib only measure the
    # text, the page draws it with its own, so that a glyph they lack is no news.
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn


def inline(drawn: Figure, name: str, description: str) -> str:
    """The figure as an ``<svg>`` element, to be called inside the ``with`` of [`figure`][nextword.report.svg.figure].

    Ids get ``name`` in front, namespaces and the style sheet (which would apply to the whole page) are taken out, and
    ``description`` is what a screen reader says.
    """
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
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": description}
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
    return re.sub(r"url\(#", f"url(#{name}-", text)
