"""The page of the run: a table of counts, and what differs by design."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mixins.verdicts import ANY


def page(record: dict[str, Any]) -> str:
    """All of it, in Markdown."""
    parts = [_HEAD.format(**record, read=_listed(record["mixins"])), _table(record["rows"]), _BY_DESIGN]
    parts.append("\n".join(_difference(one) for one in record["differences"]) + "\n")
    unexpected = [_unexpected(row) for row in record["rows"] if row["unexpected"]]
    if unexpected:
        parts += ["## Unexpected\n", "\n".join(unexpected) + "\n"]
    return "\n".join(parts)


_HEAD = """# transformers' own tests

transformers tests its models with mixins: classes of tests that ask any model to save and load, to train, to resize its
embeddings, to compute attention in each of its ways, and more. Here these tests run unchanged on our classes: a tiny
model of transformers with a head, in place of the model alone. Made by `python benchmarks/mixin_tests.py`
(`make mixins`) with transformers {transformers}, torch {torch}, nextword {nextword}; mixins: {read}.

The tests are no part of the installed package. The command fetches the source distribution of the installed version
into `runs/transformers-tests` and leaves it there. A distribution has the tests of models; those of generation and
export (`GenerationTesterMixin`, `ExportTesterMixin`) are in a checkout alone: `--tests PATH` names one, at the tag of
the installed version. Every way to generate is also asked of each head by [the sweep](models.md) and by our own tests.

## How many

A test that the bare model fails or skips is not asked of a head. The columns after the first add up to it.
"""
_BY_DESIGN = """## Different by design

The command fails where a test differs that is not in this list (`benchmarks/mixins/by_design.toml`), and where one that
is in it passes.
"""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(rows: Iterable[dict[str, Any]]) -> str:
    lines = [
        "| model | head | passed bare | passed | by design | unexpected |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        counts = (row["bare_passed"], row["passed"], len(row["by_design"]), len(row["unexpected"]))
        lines.append(f"| {row['backbone']} | `{row['head']}` | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def _difference(one: dict[str, Any]) -> str:
    models = "" if ANY in one["backbones"] else f" on {', '.join(one['backbones'])}"
    heads = "every head" if ANY in one["heads"] else _listed(one["heads"])
    return f"- `{one['test']}`{models}, {heads}: {one['why']}."


def _unexpected(row: dict[str, Any]) -> str:
    named = "; ".join(f"`{test}` ({how})" for test, how in row["unexpected"].items())
    return f"- {row['backbone']}, `{row['head']}`: {named}"
