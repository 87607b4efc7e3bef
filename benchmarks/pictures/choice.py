"""Which head to take, as a tree: the content of docs/heads/index.md."""

from __future__ import annotations

from typing import Any

from matplotlib.patches import FancyBboxPatch

from nextword.results.report.template import EDGE, INK, METHODS, SOFT
from pictures.style import Picture

TREE: tuple[tuple[int, str, str], ...] = (
    (0, "Can you train the model?", ""),
    (1, "no: which text helps?", ""),
    (2, "it repeats its own names", "cache"),
    (2, "a corpus, word for word", "ngram"),
    (2, "a corpus, similar text", "knn"),
    (1, "yes: what do you want?", ""),
    (2, "tokens of the text return", "cache"),
    (2, "copy from a source (T5)", "softmax+ce, copynet"),
    (2, "see what was copied", "pg, ps"),
    (2, "two unrelated tokens", "mos:3"),
    (2, "diverse, rare tokens", "f2"),
    (2, "lower perplexity, cheaply", "softmax+mi, +cpr:20,100"),
    (2, "nothing, a baseline", "softmax"),
)
"""Depth, question or answer, and heads."""

_LINE, _INDENT, _INCH, _WIDTH, _HEADS = 33, 24, 96, 560, 322


def which_head() -> Picture:
    """Lines of a tree, each answer with its heads to the right."""
    height = _LINE * len(TREE) + 10

    def draw(figure: Any) -> None:
        figure.set_layout_engine("none")
        panel = figure.add_axes((0, 0, 1, 1))
        panel.set_xlim(0, _WIDTH)
        panel.set_ylim(height, 0)
        panel.axis("off")
        for place, (depth, text, heads) in enumerate(TREE):
            x, y = 8 + _INDENT * depth, 5 + _LINE * (place + 0.5)
            weight = "normal" if heads else "bold"
            panel.text(x, y, text, va="center", color=INK, fontsize=11.5, fontweight=weight)
            if depth:
                parent = max(before for before in range(place) if TREE[before][0] == depth - 1)
                left, top = x - _INDENT + 7, 5 + _LINE * (parent + 0.5) + 11
                panel.plot([left, left, x - 4], [top, y, y], color=SOFT, linewidth=1.2)
            if heads:
                panel.plot([x + 9 * len(text) + 4, _HEADS - 6], [y, y], ":", color=EDGE, linewidth=1.2)
                look = {"boxstyle": "round,pad=3,rounding_size=5", "facecolor": "none", "edgecolor": METHODS[0]}
                panel.add_patch(FancyBboxPatch((_HEADS + 3, y - 9), _WIDTH - _HEADS - 10, 18, **look))
                panel.text(_HEADS + 10, y, heads, va="center", color=METHODS[0], fontsize=11.5)

    return Picture(draw, height / _INCH, _WIDTH / _INCH)


PICTURES = {"which-head": which_head}
