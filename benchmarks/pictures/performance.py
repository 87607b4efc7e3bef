"""What heads cost, for ``docs/performance.md``: a training step, and how time and memory grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import ticker
from table_parts import Row, measured

from nextword.results.report import svg
from nextword.results.report.template import METHODS
from pictures.style import Picture

_COLOURS = (METHODS[7], *METHODS[:7])
_MARKS = "osD^vP*X"
_HIDDEN = "use_cache=False"


_SHOWN = ("softmax", "cache", "softmax+cpr:20,100+mi", "mos:3", "f2")
"""The heads of the line charts, beside transformers' own model."""

_BARS = (("time_ratio", "time of a step"), ("head_ratio", "memory of head and loss"))


def training(data: Path) -> Picture | None:
    """Two bars for each head of GPT-2 small: time and memory over transformers' own model."""
    groups = [(w, rows) for w, rows in measured(data, "training_cost") if w["device"] == "cpu"]
    wanted = [(w, rows) for w, rows in groups if w["suite"] == "gpt2-small"]
    if not wanted:
        return None
    where, every = wanted[0]
    shown = [row for row in every if " " not in row["model"]]

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        for number, (column, label) in enumerate(_BARS):
            at = [place + 0.38 * (number - 0.5) for place in range(len(shown))]
            values = [float(row[column]) for row in shown]
            panel.barh(at, values, height=0.34, color=_COLOURS[number], label=label)
        panel.axvline(1, color=svg.EDGE, linewidth=1)
        panel.set_yticks(range(len(shown)), [row["model"] for row in shown])
        panel.invert_yaxis()
        panel.tick_params(axis="y", length=0, labelcolor=svg.INK)
        panel.set_xlabel(f"transformers' own model = 1 ({where['batch']} × {where['length']} tokens)")
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.0)

    return Picture(draw, 1.3 + 0.4 * len(shown))


def sweeps(data: Path) -> Picture | None:
    """Time and memory by vocabulary and by length, on logarithmic axes."""
    groups = [(w, rows) for w, rows in measured(data, "sweeps") if w["device"] == "cpu"]
    kinds = list(dict.fromkeys((where["sweep"], where["size"]) for where, _ in groups))
    if not kinds:
        return None

    def draw(figure: Any) -> None:
        panels = figure.subplots(2 * len(kinds), 1)
        for column, (kind, size) in enumerate(kinds):
            points = [(int(w[kind]), rows) for w, rows in groups if (w["sweep"], w["size"]) == (kind, size)]
            for line, (value, title) in enumerate((("ms", "ms per training step"), ("peak_mb", "peak MB"))):
                panel = panels[2 * column + line]
                _lines(panel, points, value, _models(groups))
                panel.set_title(f"{title} by {kind}, {size}")
        # one legend for all panels: every line that any of them has
        lines = {
            label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(lines.values(), lines.keys(), loc="outside upper left", ncols=2)

    return Picture(draw, 2.7 * 2 * len(kinds) + 0.9)


def history(data: Path) -> Picture | None:
    """Milliseconds of a decoding step by length of the prompt."""
    groups = [
        (w, r) for w, r in measured(data, "decoding_speed") if w["size"] == "three-layers" and w["device"] == "cpu"
    ]
    points = [(int(where["prompt"]), rows) for where, rows in groups if where["batch"] == where["beams"] == "1"]
    if not points:
        return None

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        _lines(panel, points, "ms_per_step", _models(points))
        panel.set_yscale("linear")
        panel.yaxis.set_major_formatter(ticker.ScalarFormatter())
        panel.set_ylim(bottom=0)
        panel.set_ylabel("ms per decoding step")
        panel.set_xlabel("tokens in the context (three layers, greedy, batch 1)")
        figure.legend(loc="outside upper left", ncols=2)

    return Picture(draw, 4.2)


def _models(groups: Sequence[tuple[Any, list[Row]]]) -> list[str]:
    """The names that have a line, in their order; where none of the chosen heads is there, every name."""
    names = list(dict.fromkeys(row["model"] for _, rows in groups for row in rows if _HIDDEN not in row["model"]))
    chosen = [name for name in names if name in _SHOWN or name.startswith("transformers")]
    return chosen or names


def _lines(panel: Any, points: list[tuple[int, list[Row]]], value: str, names: list[str]) -> None:
    """A line for each name that there are points of; a name has the same look in every panel that is given the same."""
    for number, name in enumerate(names):
        found = sorted((x, float(row[value])) for x, rows in points for row in rows if row["model"] == name)
        if not found:
            continue
        # past as many names as there are colours, a colour comes again with another mark
        mark = _MARKS[(number + number // len(_COLOURS)) % len(_MARKS)]
        style = {"color": _COLOURS[number % len(_COLOURS)], "marker": mark}
        panel.plot(*zip(*found, strict=True), label=name, **style)
    positions = sorted({x for x, _ in points})
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    # whole numbers instead of powers: axes span less than two decades, and 10 to the 3 says little
    panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, place: f"{value:,.6g}"))
    panel.set_xticks(positions, [f"{x:,}" for x in positions])
    panel.minorticks_off()
    panel.grid(axis="y")


def pictures(data: Path) -> dict[str, Picture]:
    """Those that there are rows for."""
    found = {f"performance/{made.__name__}": made(data) for made in (training, sweeps, history)}
    return {name: picture for name, picture in found.items() if picture is not None}
