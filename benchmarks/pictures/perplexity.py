"""Perplexity by head, what it costs, and how it depends on a cache's temperature."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from nextword.results.records.reproduced_table import ReproducedTable
from nextword.results.report.template import EDGE, INK, METHODS, SOFT
from pictures.records import RECORDS, Measured, measured, tables
from pictures.style import Picture

_COPYING = ("cache", "pg", "ps", "+c", "ngram", "knn")
_PLAIN, _COPY, _OTHER = METHODS[7], METHODS[1], METHODS[0]


def _colour(head: str) -> str:
    """Of heads that copy, of others, and of the plain model."""
    if head in ("softmax", "plain"):
        return _PLAIN
    return _COPY if any(part in head for part in _COPYING) else _OTHER


def _legend(figure: Any, panel: Any, ncols: int = 2) -> None:
    panel.plot([], [], "s", color=_COPY, label="copies")
    panel.plot([], [], "s", color=_OTHER, label="does not copy")
    figure.legend(loc="outside upper left", ncols=ncols, handlelength=1.0)


def _bars(panel: Any, rows: list[tuple[str, Measured]]) -> None:
    """Bars with intervals, and the values in front of them."""
    for place, (head, one) in enumerate(rows):
        panel.barh(place, one.value, height=0.62, color=_colour(head), alpha=0.85)
        panel.plot([one.low, one.high], [place, place], color=INK, linewidth=1.4)
        at = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        panel.annotate(f"{one.value:.1f}", (one.high, place), color=INK, **at)
    panel.set_yticks(range(len(rows)), [head for head, _ in rows])
    panel.tick_params(axis="y", length=0, labelcolor=INK)
    panel.set_ylim(len(rows) - 0.4, -0.6)
    panel.set_xlim(0, 1.14 * max(one.high for _, one in rows))


def heads() -> Picture:
    """Nine heads of a small GPT-2 that were trained for as many steps."""
    (rows,) = tables("results/wikitext2-heads")
    found = [(row["method"].replace(" (TRIME)", ""), measured(row["perplexity, seed 0"])) for row in rows]
    found.sort(key=lambda row: -row[1].value)

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        _bars(panel, found)
        panel.set_xlabel("perplexity on WikiText-2, small GPT-2\n(lower is better)")
        _legend(figure, panel)

    return Picture(draw, 3.9)


def pretrained() -> Picture:
    """Heads put on SmolLM2 without training; intervals are those of the difference from the model alone."""
    rows = tables("results/pretrained-heads")[0]
    plain = measured(rows[0]["perplexity"]).value
    found = [("plain", Measured(plain, plain, plain))]
    for row in rows[1:]:
        off = measured(row["difference to plain, nats per token"])
        value = measured(row["perplexity"]).value
        found.append((row["model"], Measured(value, plain * math.exp(off.low), plain * math.exp(off.high))))

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        _bars(panel, found)
        panel.set_xlabel("perplexity of SmolLM2-135M on WikiText-2 (lower is better),\nheads calibrated, not trained")

    return Picture(draw, 0.8 + 0.42 * len(found))


def fifteen() -> Picture:
    """Softmax-CPR's fifteen heads on SmolLM2, trained from stored states: mean, lowest and highest seed."""
    table = ReproducedTable.load(RECORDS / "papers" / "pretrained" / "softmax-cpr" / "figure-3.json")
    wiki = [column.title for column in table.columns].index("Wiki")
    found = {row.title: list(row.cells[wiki].by_seed.values()) for row in table.rows if "model" not in row.title}
    plain = fmean(found.pop("SmolLM2 as it is"))
    rows = sorted(found.items(), key=lambda row: -fmean(row[1]))

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        for place, (title, seeds) in enumerate(rows):
            copies = any(part in title for part in ("PG", "PS", "+ C", "+ P"))
            colour = _PLAIN if title == "Softmax" else _COPY if copies else _OTHER
            panel.plot([min(seeds), max(seeds)], [place, place], color=colour, linewidth=2.2, alpha=0.5)
            panel.plot([fmean(seeds)], [place], "o", color=colour, markersize=7)
        panel.set_yticks(range(len(rows)), [title for title, _ in rows])
        panel.tick_params(axis="y", length=0, labelcolor=INK)
        panel.set_ylim(len(rows) - 0.4, -0.6)
        panel.set_xlabel(f"perplexity on WikiText-2, SmolLM2-135M\n(model without a trained head: {plain:.2f})")
        panel.grid(axis="x")
        _legend(figure, panel)

    return Picture(draw, 0.9 + 0.27 * len(rows))


_LABELS = {
    "softmax+c+mi": (9, -10, "left"),
    "ps+mi": (0, 30, "center"),
    "mos:3+mi": (0, 36, "center"),
    "softmax+r:20,100+mi": (0, -42, "center"),
    "softmax+cpr:20,100+mi": (-9, 0, "right"),
}
"""Where the name of a dot is, in points from it, if not to the right."""


def cost() -> Picture:
    """How much lower the perplexity, and how much longer a training step."""
    (rows,) = tables("results/wikitext2-heads")
    plain = measured(rows[0]["perplexity, seed 0"]).value

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        for row in rows[1:]:
            head = row["method"].replace(" (TRIME)", "")
            one, time = measured(row["perplexity, seed 0"]), float(row["step time"])
            value, low, high = (100 * (1 - number / plain) for number in (one.value, one.high, one.low))
            panel.plot([time, time], [low, high], color=_colour(head), alpha=0.35, linewidth=2.5)
            panel.plot([time], [value], "o", color=_colour(head), markersize=8)
            across, up, side = _LABELS.get(head, (9, 0, "left"))
            where = {"xytext": (across, up), "textcoords": "offset points", "va": "center", "ha": side}
            panel.annotate(head, (time, value), **where)
        panel.axhline(0, color=EDGE, linewidth=1)
        panel.text(1.5, 0.4, "softmax", ha="center", va="bottom", color=SOFT)
        panel.set_xlim(0.95, 2.45)
        panel.set_xlabel("time of a training step (1 = transformers' own model)")
        panel.set_ylabel("perplexity below softmax, %")
        panel.grid()
        _legend(figure, panel)

    return Picture(draw, 4.3)


_STARTS = (  # table of the record, heading within it, label
    (0, "600 steps from random weights", "600 steps from random weights"),
    (0, "200 steps from the start", "200 steps on a trained model"),
    (2, None, "the same, twice as wide"),
    (3, None, "the same, window of 1,024"),
)


def temperature() -> Picture:
    """A trained cache by the temperature that it was trained at; before training, what it begins with."""
    found = tables("results/cache")
    before = {
        int(row[""].rpartition(" ")[2]): measured(row["perplexity"]).value
        for row in found[1]
        if row[""].startswith("joint, temperature ")
    }

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        for number, (table, begin, label) in enumerate(_STARTS):
            points = _by_temperature(found[table], begin)
            style = {"color": METHODS[number], "marker": "os^D"[number], "markersize": 6}
            panel.plot(list(points), [one.value for one in points.values()], label=label, **style)
            for x, one in points.items():
                panel.plot([x, x], [one.low, one.high], color=METHODS[number], linewidth=1.2)
        dashed = {"color": SOFT, "marker": "o", "markerfacecolor": "none", "label": "trained model, before training"}
        panel.plot(list(before), list(before.values()), "--", **dashed)
        panel.text(1.9, 315, f"{before[1]:,.0f} at 1 ↖", color=SOFT, ha="right", va="top", fontsize=9.5)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks([1, 2, 4], ["1", "2", "4"])
        panel.set_yticks([75, 100, 150, 200, 300], ["75", "100", "150", "200", "300"])
        panel.minorticks_off()
        panel.set_ylim(72, 330)
        panel.set_xlabel("temperature of the cache in training")
        panel.set_ylabel("perplexity (lower is better)")
        panel.grid(axis="y")
        figure.legend(loc="outside upper left", ncols=1, handlelength=2.0)

    return Picture(draw, 5.2)


def _by_temperature(rows: list[dict[str, str]], begin: str | None) -> dict[int, Measured]:
    """Rows 'trained, joint, temperature T' of a table, or of the part of it that begins with a heading."""
    points: dict[int, Measured] = {}
    inside = begin is None
    for row in rows:
        name = next(iter(row.values()))
        if name.startswith("**"):
            inside = begin is None or name == f"**{begin}**"
        elif inside and name.startswith("trained, joint, temperature "):
            points[int(name.rpartition(" ")[2])] = measured(row["perplexity"])
    return points


PICTURES = {
    "perplexity-heads": heads,
    "smollm2-heads": pretrained,
    "smollm2-softmax-cpr": fifteen,
    "gain-and-cost": cost,
    "cache-temperature": temperature,
}
