"""The tables of the metrics' pages, made from the metrics themselves: all metrics, and the settings of each card.

python website/metric_tables.py
"""

from __future__ import annotations

import re
from pathlib import Path

import nextword as nw
import nextword.evaluation.judges
from nextword.cli.list import first_sentence
from nextword.evaluation.metrics import Metric, MetricConfig
from nextword.settings.config import field_docstrings

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "metrics"
PART = re.compile(r"(<!-- (metrics|settings: [\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
CARD = re.compile(r"^## `([\w-]+)`$", re.MULTILINE)
BETTER = {"higher": "up", "lower": "down", "human": "human"}
FIELDS = {"tokens": "text", "reference_tokens": "references", "predictions": "target_ranks` or `predicted_token_ids"}
"""Fields of a samples file, by what a metric needs of it where that has another name."""


def cards() -> dict[str, str]:
    """The page of each card, by metric."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
    return {name: page for page, text in pages.items() for name in CARD.findall(text)}


def metrics_table() -> str:
    """A row for each metric, in the order of reports."""
    found = [(name, nw.metrics.registry.get(name)) for name in sorted(nw.metrics.registry.names())]
    page_of = cards()
    rows = [
        f"| [`{name}`]({page_of[name]}#{name}) | {meaning_of(metric)} | {BETTER[metric.goal]} | {needs_of(metric)} |"
        for name, metric in found
    ]
    return "\n".join(["| metric | measures | better | needs |", "| --- | --- | --- | --- |", *rows])


def meaning_of(metric: type[Metric]) -> str:
    """The first sentence about a metric."""
    return first_sentence(metric.__doc__ or "").rstrip(".")


def needs_of(metric: type[Metric]) -> str:
    """Fields of a samples file."""
    return ", ".join(f"`{FIELDS.get(field, field)}`" for field in metric.needs)


def settings_table(config: type[MetricConfig]) -> str:
    """A row for each setting of a metric."""
    texts = field_docstrings(config)
    rows = [
        f"| `{name}` | {shown(field.default)} | {' '.join(texts[name].split()).replace('``', '`')} |"
        for name, field in config.model_fields.items()
        if name != "metric"
    ]
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows])


def shown(default: object) -> str:
    """A default as the user writes it."""
    if isinstance(default, tuple):
        return ", ".join(map(str, default)) or "none"
    if default is None or isinstance(default, bool):  # not by equality: 0 equals False, and 1 True
        return str(default).lower()
    return str(default)


def filled(text: str) -> str:
    """A page with its tables as the metrics are now."""

    def one(match: re.Match[str]) -> str:
        begin, what, end = match.groups()
        name = what.removeprefix("settings: ")
        table = metrics_table() if what == "metrics" else settings_table(nw.metrics.registry.get(name).Config)
        return f"{begin}\n{table}\n\n{end}"

    return PART.sub(one, text)


if __name__ == "__main__":
    for page in FOLDER.glob("*.md"):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
