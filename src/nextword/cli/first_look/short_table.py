"""What the quickstart found: a row a method, and what it means in two sentences."""

from __future__ import annotations

from statistics import fmean

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from nextword.results.records import Results
from nextword.results.report import results_table
from nextword.results.report.formats import listing
from nextword.results.report.terminal import framed, right

COLUMNS = {"acc@2": "both words on top", "acc@1": "first guess right", "nll": "nats per word"}
"""Headings of the measures that are shown."""
LEAD = "acc@2"
"""The measure that the sentence is about."""


def short_table(results: Results) -> RenderableType:
    """Three measures of every method, who is ahead, and what one seed is worth; of another task the usual table."""
    if not results.runs or not all(COLUMNS.keys() <= run.evaluation.metrics.keys() for run in results.runs):
        return results_table(results)
    rows = [
        (Text(method), *(_shown(_values(results, method, metric), metric) for metric in COLUMNS))
        for method in dict.fromkeys(run.method for run in results.runs)
    ]
    table = framed(None, [Column("method", no_wrap=True), *right(*COLUMNS.values())], rows, padding=(0, 1))
    worth = (
        f"Means of {len(results.seeds)} seeds, with the lowest and the highest."
        if len(results.seeds) > 1
        else "One seed is an anecdote: another moves softmax and mos by ten points and more. For means: --seeds 3."
    )
    return Group(table, Text(_sentence(results)), Text(worth))


def _values(results: Results, method: str, metric: str) -> list[float]:
    return [run.evaluation.metrics[metric].value for run in results.runs if run.method == method]


def _shown(values: list[float], metric: str) -> str:
    def text(value: float) -> str:
        return f"{value:.2f}" if metric == "nll" else f"{100 * value:.0f} %"

    mean, low, high = text(fmean(values)), text(min(values)), text(max(values))
    return mean if low == high else f"{mean} ({low} to {high})"


def _sentence(results: Results) -> str:
    shares = {run.method: fmean(_values(results, run.method, LEAD)) for run in results.runs}
    (first, share), best = next(iter(shares.items())), max(shares.values())
    ahead = [method for method, value in shares.items() if value == best]
    if first in ahead:
        return f"Both words are on top for {100 * share:.0f} % of the prompts with {first}, for no more with any other."
    return (
        f"Both words are on top for {100 * best:.0f} % of the prompts with {listing(ahead)}, "
        f"for {100 * share:.0f} % with {first}."
    )
