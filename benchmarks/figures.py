"""The figures of ``docs/performance.md``: targets against measurements, and how cost grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import ticker
from table_parts import Row, Targets, measured

from nextword.results.report import svg

_COLOURS = ("#6e7781", "#0969da", "#1a7f37", "#bf3989", "#bc4c00", "#8250df", "#4d2d00", "#0550ae")
_MARKS = "osD^vP*X"
_HIDDEN = "use_cache=False"


_PANELS = (
    ("time_ratio", "time", "time of a step"),
    ("peak_ratio", "memory", "peak memory of a step"),
    ("head_ratio", "memory", "memory of head and loss"),
)


def training(data: Path, wanted: Targets) -> Any:
    """Time and memory of each method over the baseline's, targets as ticks; a single round is not judged."""
    groups = [(w, rows) for w, rows in measured(data, "training_cost") if w["suite"] in wanted["training"]]
    groups = [(w, rows) for w, rows in groups if w["device"] == "cpu"]
    shown = [(w, row) for w, rows in groups for row in rows if row["model"] in wanted["training"][w["suite"]]]
    if not shown:
        return None

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(_PANELS), sharey=True)
        names = [_named(where, row) for where, row in shown]
        for panel, (column, target, title) in zip(panels, _PANELS, strict=True):
            aims = [wanted["training"][where["suite"]][row["model"]][target] for where, row in shown]
            values = [float(row[column]) for _, row in shown]
            judged = [target != "time" or int(row["rounds"]) > 1 for _, row in shown]
            colours = [
                _COLOURS[0] if not many else _COLOURS[2] if value <= aim else _COLOURS[4]
                for value, aim, many in zip(values, aims, judged, strict=True)
            ]
            panel.barh(range(len(names)), values, color=colours, height=0.6)
            ticks = [(aim, place) for place, (aim, many) in enumerate(zip(aims, judged, strict=True)) if many]
            panel.scatter(
                *(zip(*ticks, strict=True) if ticks else ([], [])),
                marker="|",
                s=160,
                color=svg.INK,
                zorder=3,
                label="target",
            )
            panel.axvline(1, color=svg.FAINT, zorder=0)
            panel.set_title(f"{title},\nover the baseline's")
            panel.set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower right")

    return draw, 11.0, 1.2 + 0.3 * len(shown)


def _named(where: dict[str, str], row: Row) -> str:
    size = "" if where["size"] == "gpt2-small" else f", {where['size']}"
    return f"{row['model']}{size}, {where['batch']} × {where['length']}"


def sweeps(data: Path, wanted: Targets) -> Any:
    """Time and memory by vocabulary and by length, on logarithmic axes."""
    groups = [(w, rows) for w, rows in measured(data, "sweeps") if w["device"] == "cpu"]
    kinds = list(dict.fromkeys((where["sweep"], where["size"]) for where, _ in groups))
    if not kinds:
        return None

    def draw(figure: Any) -> None:
        panels = figure.subplots(2, len(kinds), squeeze=False)
        for column, (kind, size) in enumerate(kinds):
            points = [(int(w[kind]), rows) for w, rows in groups if (w["sweep"], w["size"]) == (kind, size)]
            for line, (value, title) in enumerate((("ms", "ms a training step"), ("peak_mb", "peak MB"))):
                _lines(panels[line][column], points, value, _models(groups))
                panels[line][column].set_title(f"{title} by {kind}, {size}")
        # one legend for all panels: every line that any of them has
        lines = {
            label: line for panel in panels.flat for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, fontsize=9)

    return draw, 4.6 * len(kinds), 7.0


def history(data: Path, wanted: Targets) -> Any:
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
        panel.set_title("ms a decoding step by tokens before it (three layers, greedy, batch 1)")
        panel.legend(fontsize=8, ncols=2)

    return draw, 7.0, 4.2


def _models(groups: Sequence[tuple[Any, list[Row]]]) -> list[str]:
    return list(dict.fromkeys(row["model"] for _, rows in groups for row in rows if _HIDDEN not in row["model"]))


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


FIGURES: dict[str, Callable[[Path, Targets], Any]] = {"training": training, "sweeps": sweeps, "history": history}
"""Figures by name: each gives what draws it, its width and its height, or None where nothing was measured."""


def write(data: Path, wanted: Targets, folder: Path) -> list[Path]:
    """Draws every figure that there are rows for into ``folder``."""
    written = []
    for name, made in FIGURES.items():
        found = made(data, wanted)
        if found is None:
            continue
        draw, width, height = found
        with svg.figure(f"performance-{name}", height, width) as figure:
            figure.patch.set_facecolor("white")  # a page may be dark
            draw(figure)
            folder.mkdir(parents=True, exist_ok=True)
            written.append(folder / f"{name}.svg")
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(written[-1], format="svg", metadata=nothing)
    return written
