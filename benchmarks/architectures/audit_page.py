"""The page of audited architectures: counts, every fault with its reason, and what could not be asked."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from architectures.one_architecture import Row

DEFECTS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "defects.toml").read_text(encoding="utf-8"))
"""Reasons, each under a name: ``why`` a model does so, ``faults`` that an audit names, ``models`` that have them."""


def reason_of(row: Row, fault: str) -> str:
    """Why a model has a fault, or makes a row raise; empty where none is known: a false alarm."""
    whys = (one["why"] for one in DEFECTS.values() if row["name"] in one["models"] and fault in one["faults"])
    return next(whys, "")


def unexplained(row: Row) -> list[str]:
    """Faults that count as false alarms."""
    return [name for name in named(row) if not reason_of(row, name)]


def named(row: Row) -> list[str]:
    """Faults that were found, and rows that raised."""
    return [*row.get("faults", {}), *row.get("raised", {})]


def shown(row: Row) -> str:
    """A row on a few lines, for whoever watches."""
    if "faults" not in row:
        reasons = row["not_built"] or "; ".join(f"{what}: {why}" for what, why in row["bare"].items())
        return f"{row['name']} ({row['kind']}): not audited: {reasons}"
    lines = [f"{row['name']} ({row['kind']}), {row.get('seconds', 0):g} s, {row.get('asked', 0)} rows"]
    lines += [
        f"    {'defect' if reason_of(row, fault) else 'UNEXPLAINED'} {fault}: {sentence}"
        for fault, sentence in row["faults"].items()
    ]
    lines += [
        f"    {'defect' if reason_of(row, what) else 'UNEXPLAINED'}, {what} raised: {why}"
        for what, why in row["raised"].items()
    ]
    return "\n".join(lines)


def audit_page(record: dict[str, Any]) -> str:
    """All of it, in Markdown."""
    rows = record["rows"]
    audited = [row for row in rows if "faults" in row]
    clean = [row for row in audited if not row["faults"] and not row["raised"]]
    alarms = [row for row in audited if unexplained(row)]
    table = [
        "| | decoder-only | encoder-decoder |",
        "| --- | --- | --- |",
        *(
            f"| {what} | {_count(chosen, 'decoder-only')} | {_count(chosen, 'encoder-decoder')} |"
            for what, chosen in (
                ("audited", audited),
                ("nothing found", clean),
                ("a defect of the model", [row for row in audited if row not in clean and row not in alarms]),
                ("**without a reason**", alarms),
                ("not audited", [row for row in rows if row not in audited]),
            )
        ),
    ]
    return (
        "\n".join(
            [
                _HEAD.format(**record),
                *table,
                "\n## Defects\n\nFaults that the audit names, the models that have them, and why they do.\n",
                *(_defect(one, audited) for one in DEFECTS.values()),
                "\n## Without a reason\n",
                *([f"- {row['name']} ({row['kind']}): {', '.join(unexplained(row))}" for row in alarms] or ["None."]),
                *(["\n## Not run yet\n", ", ".join(record["missing"])] if record["missing"] else []),
                _NOT_AUDITED,
                *(f"- {shown(row).replace(': not audited', '')}" for row in rows if row not in audited),
            ]
        )
        + "\n"
    )


def _defect(one: dict[str, Any], audited: list[Row]) -> str:
    rows = [row for row in audited if row["name"] in one["models"] and set(named(row)) & set(one["faults"])]
    seen = [name for name in one["faults"] if any(name in named(row) for row in rows)]
    models = dict.fromkeys(row["name"] for row in rows)
    return f"- {', '.join(f'`{name}`' for name in seen)}: {one['why']} — {', '.join(models)}"


def _count(rows: list[Row], kind: str) -> int:
    return Counter(row["kind"] for row in rows)[kind]


_HEAD = """# Models through the audit

Every architecture that `AutoModelForCausalLM` and `AutoModelForSeq2SeqLM` of transformers {transformers} know, as a
tiny random model, through [`nw.check`](checker.md) as it is. Made by `python benchmarks/audit_sweep.py`
(`make audits`) with torch {torch}, nextword {nextword}.

None of these models has a mistake planted in it. What the audit finds is a defect of the model, with its reason
below, or it stands under "without a reason" and counts as a false alarm.
"""
_NOT_AUDITED = """
## Not audited

Models that read no text by themselves, could not be built small, or had no end in the time they were given.
"""
