"""The page of a sweep: counts, what is refused and why, what fails, and every architecture in one table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from architectures.one_architecture import Row

SIGNS = {"works": "✓", "refused": "refused", "fails": "**fails**"}
_DIFFERING = (
    (re.compile(r"<class '\S+Config'>|'\w+Config'"), "CONFIGURATION"),
    (re.compile(r" Model type should.*"), ""),
    (re.compile(r"(?<![\w'])(inf\b|\d+(\.\d+)?(e[-+]?\d+)?)(?!\w)"), "#"),
)
_LONGEST = 150
NOT_ASKED = "–"
"""The bare model does not even read a text."""


def short(row: Row) -> str:
    """A row on a few lines, for whoever watches."""
    if row["not_built"]:
        return f"{row['name']} ({row['kind']}): not built: {row['not_built']}"
    lines = [f"{row['name']} ({row['kind']}), {row.get('seconds', 0):g} s"]
    lines += [f"    bare model, {ability}: {why}" for ability, why in row["bare"].items()]
    for head, cell in row["heads"].items():
        lines.append(
            f"    {head}: {cell['outcome']}" + (f": {cell['where']}: {cell['reason']}" if cell["where"] else "")
        )
    return "\n".join(lines)


def page(record: dict[str, Any], oldest: dict[str, Any] | None = None) -> str:
    """All of it, in Markdown.

    Args:
        record: Of the newest transformers.
        oldest: Of the oldest that is supported, of which counts alone are shown.
    """
    rows: list[Row] = record["rows"]
    built = [row for row in rows if not row["not_built"]]
    parts = [
        _HEAD.format(**record),
        "## How many\n",
        _counts(rows, record),
        *(_section("With the oldest transformers", _oldest(oldest), "") if oldest else []),
        *_section("Not run yet", [", ".join(record["missing"])] if record["missing"] else [], ""),
        *_section("Refused", _grouped(built, "refused"), _REFUSED),
        *_section("Fails", _grouped(built, "fails"), _FAILS),
        *_section("What the models cannot do by themselves", _bare(built), _BARE),
        *_section("Not built", _by_reason((row["not_built"], row["name"], "") for row in rows if row["not_built"]), ""),
        "## Every architecture\n",
        _EVERY,
        _table([row for row in built if row["heads"]], record["heads"]),
    ]
    return "\n".join(parts) + "\n"


_HEAD = """# Which models it works with

Every architecture that `AutoModelForCausalLM` and `AutoModelForSeq2SeqLM` of transformers {transformers} know, as a
tiny random model of its default configuration, under one head of each family. Made by
`python benchmarks/model_sweep.py` (`make models`) with torch {torch}, nextword {nextword}. New architectures of a new
transformers show up by themselves. Some of these models with more heads also go through
[transformers' own tests](transformers-tests.md).

With each head a model is attached, and asked for what follows, up to the first thing that fails:

- `softmax` gives the bare model's log-probabilities, bit for bit;
- [`nw.check`](checker.md): its distributions sum to one, see no future and no padding, and are the same from a cache;
- `generate` with a cache is `generate` without, step by step;
- a text in a padded batch is continued as it is alone;
- beam search with a cache is beam search without;
- a training step with `labels` alone has a finite loss and finite gradients;
- saved and loaded, it gives the same;
- the configuration of the model that was given is untouched.

What the bare model cannot do itself is not asked of it with a head. Two runs agree where log-probabilities differ by
1e-5 of the largest of their row, plus 8 times what rounding does to the bare model, and by 1e-3 at most. What
lies between counts as rounding where double precision does not show it.
"""
_REFUSED = "`attach` raises a `ValueError` with this reason.\n"
_FAILS = "Attached, and fails later; or `attach` raises something that is no refusal. Each is a mistake of ours.\n"
_BARE = "The model without a head, by the same tests: nothing of this is asked of it with a head.\n"
_EVERY = f"{SIGNS['works']}: everything that the bare model can do.\n"


def _counts(rows: Sequence[Row], record: dict[str, Any]) -> str:
    """A table: of each kind how many were built, and what became of them with each head."""
    heads = record["heads"]
    lines = [f"| | built | {' | '.join(f'`{head}`' for head in heads)} |", "| --- " * (len(heads) + 2) + "|"]
    for kind, count in record["all"].items():
        built = [row for row in rows if row["kind"] == kind and not row["not_built"]]
        for outcome in SIGNS:
            counts = [str(sum(_outcome(row, head) == outcome for row in built)) for head in heads]
            first = f"{len(built)} of {count}" if outcome == "works" else ""
            lines.append(f"| {kind}: {outcome} | {first} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def _oldest(record: dict[str, Any]) -> list[str]:
    """Counts of another version, and what fails there."""
    built = [row for row in record["rows"] if not row["not_built"]]
    said = f"The same with transformers {record['transformers']}, the oldest that is supported.\n"
    return [said, _counts(record["rows"], record), *_grouped(built, "fails")]


def _outcome(row: Row, head: str) -> str:
    return str(row["heads"].get(head, {}).get("outcome", NOT_ASKED))


def _section(title: str, lines: list[str], about: str) -> list[str]:
    return [f"## {title}\n", *([about] if about else []), "\n".join(lines) + "\n"] if lines else []


def _grouped(rows: Iterable[Row], outcome: str) -> list[str]:
    """Reasons, most frequent first, with the heads and architectures that they hold for."""

    def found() -> Iterator[tuple[str, str, str]]:
        for row in rows:
            by_reason: dict[str, list[str]] = defaultdict(list)
            for head, cell in row["heads"].items():
                if cell["outcome"] == outcome:
                    where = "" if cell["where"] == "attach" else f"{cell['where']}: "
                    by_reason[f"{where}{_general(cell['reason'], row, head)}"].append(head)
            for reason, heads in by_reason.items():
                every = len(heads) == len(row["heads"]) > 1
                named = "every head" if every else ", ".join(f"`{head}`" for head in heads)
                yield reason, row["name"], named

    return _by_reason(found())


def _bare(rows: Iterable[Row]) -> list[str]:
    return _by_reason(
        (f"{ability}: {_general(why, row, '')}", row["name"], "")
        for row in rows
        for ability, why in row["bare"].items()
    )


def _by_reason(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """A line for each reason, most frequent first: how many architectures and which, by the heads that it holds for."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for reason, name, heads in found:
        groups[reason][heads].append(name)
    counts = {reason: sum(len(names) for names in by_heads.values()) for reason, by_heads in groups.items()}
    lines = []
    for reason in sorted(groups, key=lambda one: (-counts[one], one)):
        parts = [f"{', '.join(names)}{heads and f' ({heads})'}" for heads, names in groups[reason].items()]
        lines.append(f"- {_plain(reason)} — {counts[reason]}: {'; '.join(parts)}")
    return lines


def _general(reason: str, row: Row, head: str) -> str:
    """A reason without what differs from model to model, so that one reason is one line; the record has it whole."""
    reason = reason.replace(row["model"], "MODEL")
    reason = reason.replace(f"'{head}'", "HEAD") if head else reason
    for pattern, kind in _DIFFERING:
        reason = pattern.sub(kind, reason)
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]} ..."


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([*_<>\[\]|])", r"\\\1", text)


def _table(rows: Sequence[Row], heads: Sequence[str]) -> str:
    lines = [
        f"| architecture | kind | {' | '.join(f'`{head}`' for head in heads)} |",
        "| --- " * (len(heads) + 2) + "|",
    ]
    for row in rows:
        signs = (SIGNS.get(_outcome(row, head), NOT_ASKED) for head in heads)
        lines.append(f"| {row['name']} | {row['kind']} | {' | '.join(signs)} |")
    return "\n".join(lines)
