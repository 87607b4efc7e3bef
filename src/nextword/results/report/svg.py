"""Matplotlib figures as inline SVG, several per HTML page."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nextword.results.report.template import EDGE, FAINT, INK, SOFT, themed

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

WIDTH = 4.8
"""Width of every figure in inches. The page scales it so that its text has the size of the page's text."""

SMALL = 10.0
"""Font size in points, except titles and ticks."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # real text, so that it can be read aloud, searched, and in any script
    "text.parse_math": False,  # a label may contain dollar signs
    "font.size": 10.5,
    "axes.edgecolor": EDGE,
    "axes.labelcolor": INK,
    "axes.labelsize": SMALL,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.labelsize": SMALL,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.7,
    "lines.markersize": 5.0,
    "hatch.linewidth": 0.8,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 3.0,
    "legend.columnspacing": 1.4,
}


@contextmanager
def figure(name: str, height: float, width: float = WIDTH) -> Iterator[Figure]:
    """Make a figure of ``height`` and ``width`` inches in the page's style. ``name`` must be unique in the page."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Figure and not pyplot, which has global state and a window system. matplotlib's fonts are used only to measure the
    # text. The page shows it in its own font, so missing glyphs do not matter.
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn


def legend(drawn: Figure, handles: Sequence[Artist]) -> None:
    """Add a legend above the panels, with as many columns as fit in the width."""
    for columns in range(len(handles), 0, -1):
        made = drawn.legend(handles=handles, loc="outside upper left", ncols=columns)
        if made.get_window_extent().width <= drawn.bbox.width:
            return
        if columns > 1:
            made.remove()


def inline(drawn: Figure, name: str, description: str) -> str:
    """Convert the figure to an ``<svg>`` element. Call this function inside the ``with`` block of ``figure``.

    Ids get the prefix ``name``, and colours become those of the page's theme. The style sheet is removed, because it
    would apply to the whole page. ``description`` is the text for screen readers.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    drawn.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    _, head, content = re.split(r"(<svg [^>]*>)", buffer.getvalue(), maxsplit=1)
    content = re.sub(r"<(metadata|style)\b.*?</\1>", "", content, flags=re.DOTALL)
    # Only tags are changed. A label may look like a tag, but its angle brackets are escaped.
    content = re.sub(r"<[^>]*>", lambda tag: _own(tag[0], name), content)
    (box,) = re.findall(r'viewBox="[^"]*"', head)
    return f'<svg {box} role="img" aria-label="{html.escape(description)}">{content}'


def _own(tag: str, name: str) -> str:
    tag = re.sub(r'\b(id="|href="#|url\(#)', rf"\1{name}-", tag.replace("xlink:href", "href"))
    return themed(re.sub(r" ?font-family: [^;\"]*;?", "", tag))  # so that the page's font is used
