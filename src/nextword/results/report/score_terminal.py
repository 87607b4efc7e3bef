"""The likelihoods of texts (``ScoreResults``) as tables for the terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import partial
from itertools import groupby

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from nextword.results.records import GroupScore, MetricValue, ModelScore, ScoreDifference, ScoreResults
from nextword.results.report import formats
from nextword.results.report.terminal import framed, right

SIGNIFICANT = 0.05
INFINITE = "\N{INFINITY}"
TITLES = {"perplexity": "perplexity", "nll": "nats per token", "bits_per_byte": "bits per byte"}
DECIMALS = {"perplexity": 2, "nll": 3, "bits_per_byte": 4}


def score_tables(results: ScoreResults) -> list[RenderableType]:
    """Tables for the terminal: values of each model, paired differences, values of groups of tokens, and notes."""
    tables: list[RenderableType] = [_values(results)]
    if results.differences:
        tables.append(_differences(results))
    tables += [_groups(results, key) for key in results.breakdowns]
    return [*tables, Text("\n".join(_notes(results)), style="dim")]


def group_meanings(results: ScoreResults) -> RenderableType:
    """Explanations of the groups of tokens, one line per breakdown (a division of the tokens into groups)."""
    return Text("\n".join(f"{one.title}: {one.meaning}" for one in results.breakdowns.values()), style="dim")


def verdict(one: ScoreDifference, units: int, unit: str) -> str:
    """The result of a paired test in words. ``units`` is the number of resampling units, and ``unit`` their name.

    >>> shown = dict(first="a", second="b", measure="nll", difference=-0.1, low=-0.2, high=-0.05, p_permutation=0.01)
    >>> found = ScoreDifference(**shown, p_holm=0.01), ScoreDifference(**shown, p_holm=0.3)
    >>> verdict(found[0], 90, "texts"), verdict(found[0], 4, "texts")
    ('a is better (p = 0.01)', 'too few texts (4) to tell')
    >>> verdict(found[1], 90, "texts")
    'no difference shown (p = 0.3; the interval excludes 0: score more text)'
    """
    if one.p_holm is None or smallest_p(units) >= SIGNIFICANT:
        return f"too few {unit} ({units}) to tell"
    p = "p < 0.001" if one.p_holm < 0.001 else f"p = {one.p_holm:.2g}"
    if not is_significant(one):
        # with few units no difference is significant after the correction for several tests, however large it is
        apart = one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)
        return f"no difference shown ({p}{'; the interval excludes 0: score more text' if apart else ''})"
    return f"{one.first if one.difference < 0 else one.second} is better ({p})"


def smallest_p(units: int) -> float:
    """Smallest p-value that a two-sided permutation test with ``units`` units can have: 2 / 2^units.

    >>> smallest_p(5), smallest_p(6)
    (0.0625, 0.03125)
    """
    return 2.0 ** (1 - units)


def is_significant(one: ScoreDifference) -> bool:
    """Whether a difference is significant after the correction for the number of tests."""
    return one.p_holm is not None and one.p_holm < SIGNIFICANT and one.difference != 0


def _values(results: ScoreResults) -> Table:
    texts = "1 text" if results.texts == 1 else f"{results.texts:,} texts"
    headers = [Column("model", overflow="fold"), *right("tokens", *TITLES.values())]
    table = framed(Text(f"{texts}, {results.bytes:,} bytes"), headers)
    for model in results.models:
        cells = [_with_interval(model.values.get(key), decimals) for key, decimals in DECIMALS.items()]
        table.add_row(Text(model.name), f"{model.tokens:,}", *cells)
    return table


def _differences(results: ScoreResults) -> Table:
    rows = []
    for one in results.differences:
        if one.group is None:
            signed = partial(formats.signed, unit="nats", decimals=DECIMALS[one.measure])
            number = signed(one.difference)
            if one.low is not None and one.high is not None:
                number = f"{number} ({signed(one.low)} to {signed(one.high)})"
            said = verdict(one, results.units, results.unit)
            rows.append((Text(f"{one.first} \N{MINUS SIGN} {one.second}"), number, TITLES[one.measure], said))
    words = [Column("of", no_wrap=True), Column("in words", overflow="fold")]
    return framed(Text("Paired differences"), [Column("models", overflow="fold"), *right("difference"), *words], rows)


def _groups(results: ScoreResults, key: str) -> Table:
    if len(results.models) > 1 and results.same_tokens:
        return _side_by_side(results, key)
    several = len(results.models) > 1
    headers = [Column("model", overflow="fold")] if several else []
    headers += [Column("group"), *right("tokens", "nats per token", "perplexity", "% of all nats")]
    table = framed(Text(results.breakdowns[key].title), headers)
    for model in results.models:
        table.add_section()
        for one in model.breakdowns[key]:
            name = [Text(model.name)] if several else []
            perplexity = INFINITE if one.perplexity == float("inf") else f"{one.perplexity:,.2f}"
            share = formats.NOTHING if one.share_of_nats is None else f"{100 * one.share_of_nats:.1f}"
            table.add_row(*name, one.group, f"{one.tokens:,}", _nll(one, interval=True), perplexity, share)
    return table


def _side_by_side(results: ScoreResults, key: str) -> Table:
    """Nats per token of each model, and differences from the first model."""
    first, *others = results.models
    of_first = [one for one in results.differences if one.breakdown == key and one.second == first.name]
    shown = {(one.group, one.first): one for one in of_first}
    by_group = [{one.group: one for one in model.breakdowns[key]} for model in results.models]
    groups = list(dict.fromkeys(name for groups in by_group for name in groups))
    counts = [_counts([groups[name].tokens if name in groups else 0 for groups in by_group]) for name in groups]
    values = [[_nll(own[name]) if name in own else formats.NOTHING for name in groups] for own in by_group]
    less = [[_difference(shown.get((name, other.name))) for name in groups] for other in (others if shown else [])]
    test = "; * significant after correction for all groups" if shown else ""
    title = Text(results.breakdowns[key].title)
    if len(results.models) > _SIDE_BY_SIDE:  # so many columns do not fit into a terminal
        changes = [[""] * len(groups), *less] if shown else [[""] * len(groups) for _ in values]
        rows = [
            (Text(model.name), *(f"{value} {change}".strip() for value, change in zip(own, change_of, strict=True)))
            for model, own, change_of in zip(results.models, values, changes, strict=True)
        ]
        caption = f"nats per token{f', and the difference from {first.name}' if shown else ''}{test}"
        return framed(title, [Column("model", overflow="fold"), *right(*groups)], [("tokens", *counts), *rows], caption)
    names = [model.name for model in results.models]
    names += [f"{other.name} \N{MINUS SIGN} {first.name}" for other in (others if shown else [])]
    headers = [Column(Text(name), justify="right", overflow="fold") for name in names]
    rows = list(zip(groups, counts, *values, *less, strict=True))
    return framed(title, ["group", *right("tokens"), *headers], rows, f"nats per token{test}")


_SIDE_BY_SIDE = 3
"""Maximum number of models that have a column each in a table of groups."""


def _counts(tokens: list[int]) -> str:
    return f"{min(tokens):,}" if len(set(tokens)) == 1 else f"{min(tokens):,} to {max(tokens):,}"


def _difference(one: ScoreDifference | None) -> str:
    if one is None:
        return formats.NOTHING
    return formats.signed(one.difference, "nats", 3) + ("*" if is_significant(one) else " ")


def _notes(results: ScoreResults) -> Iterator[str]:
    if results.units > 1:
        yield f"in brackets: 95 % bootstrap intervals over {results.units:,} {results.unit}"
    else:
        yield "no intervals: the text is too short"
    by_note: dict[str, list[str]] = {}
    for model in results.models:
        for note in _of_model(model):
            by_note.setdefault(note, []).append(model.name)
    yield from (f"{', '.join(names)}: {note}" for note, names in by_note.items())
    if not results.same_tokens:
        yield (
            "the models have different tokenizers: compare bits per byte; values per token use each model's own tokens"
        )
    if results.empty:
        yield f"{results.empty:,} empty texts were left out"


def _of_model(model: ModelScore) -> Iterator[str]:
    if model.window is not None:
        yield f"windows of at most {model.window:,} tokens, {model.stride:,} new ones in each"
    read = [name for name in model.reads if name != "prompt"]
    if read:
        yield f"reads {formats.listing(read)}"
    if model.cut_sources:
        yield f"{model.cut_sources:,} sources were longer than the encoder's maximum and were truncated"
    for why, keys in groupby(model.undefined.items(), key=lambda one: one[1]):
        yield f"{formats.listing([TITLES[key] for key, _ in keys])}: {why}"


def _with_interval(one: MetricValue | None, decimals: int) -> str:
    if one is None:
        return INFINITE
    value = formats.value(one.value, one.unit, decimals)
    if one.interval is None:
        return value
    return f"{value} ({formats.interval(*(formats.value(end, one.unit, decimals) for end in one.interval))})"


def _nll(one: GroupScore, interval: bool = False) -> str:
    if one.nll is None:
        return INFINITE
    value = f"{one.nll:.3f}"
    return f"{value} ({one.low:.3f}\N{EN DASH}{one.high:.3f})" if interval and one.low is not None else value


# -- A score as a table of values separated by commas, with a row for each model and for each of its groups.

COLUMNS = ("model", "breakdown", "group", "tokens", "nll", "low", "high", "perplexity", "share_of_nats", "impossible")


def score_csv(results: ScoreResults) -> str:
    """The content of score.csv. A cell is empty if there is no finite number."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(COLUMNS)
    for model in results.models:
        nll = model.values.get("nll")
        whole = (nll.value, nll.low, nll.high) if nll is not None else (None, None, None)
        perplexity = model.values.get("perplexity")
        table.writerow(
            [model.name, "", "", model.tokens, *whole, perplexity and perplexity.value, 1.0, model.impossible]
        )
        for key, groups in model.breakdowns.items():
            for one in groups:
                finite = one.perplexity if one.nll is not None else None
                numbers = (one.tokens, one.nll, one.low, one.high, finite, one.share_of_nats, one.impossible)
                table.writerow([model.name, key, one.group, *numbers])
    return written.getvalue()
