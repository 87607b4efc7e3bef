"""The tables of ``docs/records/performance.md`` as Markdown, from the newest rows of every measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import linear_regression

from table_parts import NOTHING, Row, Targets, at_least, at_most, markdown, measured, measured_on, rounds_of

_SWEEP = ("sweep", "size", "device")
"""Columns whose rows are one table of a sweep."""


_WHAT = {
    "evaluation": "A call with labels, without gradient",
    "training": "A training step",
    "decoding": "A step of greedy decoding",
}
"""What a head's cost is measured in."""


def cost(data: Path, wanted: Targets) -> str:
    """Time of every way to use a model, over transformers' own."""
    parts = []
    for where, rows in measured(data, "head_cost"):
        aims = wanted["cost"].get(where["what"], {})
        body = [
            [
                f"`{row['model']}`",
                f"{float(row['ms']):,.0f}",
                at_most(row["ratio"], aims.get(row["model"])),
                f"{float(row['lowest']):.2f}–{float(row['highest']):.2f}",
            ]
            for row in rows
        ]
        title = f"{_WHAT[where['what']]}, {where['size']}: {where['batch']} × {where['length']} tokens"
        title += f", {where['new']} written" if where["what"] == "decoding" else ""
        table = markdown(["", "ms", "time", "lowest and highest round"], body)
        parts.append(f"**{title}** ({measured_on(where, rows)})\n\n{table}")
    return "\n\n".join(parts) or NOTHING


def summary(data: Path, wanted: Targets) -> str:
    """Time of every way to use a model, over transformers' own: a row for each head."""
    found = {where["what"]: {row["model"]: row["ratio"] for row in rows} for where, rows in measured(data, "head_cost")}
    if not found:
        return NOTHING
    names = [name for name in next(iter(found.values())) if not name.startswith("transformers")]
    body = [
        [f"`{name}`", *(f"{float(ratios[name]):.2f}" if name in ratios else "–" for ratios in found.values())]
        for name in names
    ]
    return markdown(["head", *found], body)


def training(data: Path, wanted: Targets) -> str:
    """Time and memory of a training step."""
    parts = []
    for where, rows in measured(data, "training_cost"):
        aims = wanted["training"].get(where["suite"], {})
        body = []
        for row in rows:
            aim = aims.get(row["model"], {})
            body.append(
                [
                    f"`{row['model']}`",
                    f"{float(row['ms']):,.0f}",
                    # one round says what memory is needed, and little about time
                    at_most(row["time_ratio"], aim.get("time") if int(row["rounds"]) > 1 else None),
                    f"{float(row['time_lowest']):.2f}–{float(row['time_highest']):.2f}",
                    f"{float(row['peak_mb']):,.0f}",
                    at_most(row["peak_ratio"], aim.get("memory")),
                    f"{float(row['head_mb']):,.0f}",
                    at_most(row["head_ratio"], aim.get("memory")),
                ]
            )
        head = ["", "ms", "time", "lowest and highest round", "peak, MB", "peak", "head and loss, MB", "head and loss"]
        title = f"{where['suite']}: batch {where['batch']} × {where['length']}, against {rows[0]['baseline']}"
        parts.append(f"**{title}** ({measured_on(where, rows)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


def decoding(data: Path, wanted: Targets) -> str:
    """Tokens per second, a row for each head and a column for each way of decoding."""
    groups = [(where, rows) for where, rows in measured(data, "decoding_speed") if where["size"] == "gpt2-small"]
    return _decoded(groups, wanted["decoding"], lambda row, target: at_least(row["ratio"], target)) or NOTHING


def history(data: Path, wanted: Targets) -> str:
    """Milliseconds of a step and the largest tensor, by length of the prompt, on the small backbone."""
    groups = [(where, rows) for where, rows in measured(data, "decoding_speed") if where["size"] == "three-layers"]
    return _decoded(groups, {}, lambda row, _: f"{row['ms_per_step']} / {row['largest_mb'] or '–'}") or NOTHING


def _decoded(
    groups: list[tuple[dict[str, str], list[Row]]],
    aims: Mapping[str, float],
    cell: Callable[[Row, float | None], str],
) -> str:
    parts = []
    place = ("size", "device", "dtype", "processor")
    for key, several in groupby(groups, lambda group: tuple(group[0][name] for name in place)):
        chosen = list(several)
        names = list(dict.fromkeys(row["model"] for _, rows in chosen for row in rows))
        body = []
        for name in names:
            cells = [f"`{name}`"]
            aim = None if name.startswith("transformers") or "," in name.split("+")[0] else aims.get("every head")
            aim = aims.get(name, aim)
            for where, rows in chosen:
                found = [row for row in rows if row["model"] == name]
                # in beam search the whole distribution is taken, so the target of choosing classes is not that one's
                own = aims.get("every head") if where["beams"] != "1" and name == "f2" else aim
                cells.append(cell(found[0], own) if found else "–")
            body.append(cells)
        head = ["", *(_decoding_title(where, rows) for where, rows in chosen)]
        every = [row for _, rows in chosen for row in rows]
        parts.append(f"{key[0]} ({measured_on(chosen[0][0], every, rounds=False)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts)


def _decoding_title(where: Mapping[str, str], rows: Sequence[Row]) -> str:
    way = "greedy" if where["beams"] == "1" else f"beam {where['beams']}"
    return f"{way}, batch {where['batch']}, {where['prompt']} + {where['new']}, {rounds_of(rows)}"


def sweeps(data: Path, wanted: Targets) -> str:
    """Time and peak memory at every point of the sweeps, and how they grow."""
    parts = []
    for key, several in groupby(measured(data, "sweeps"), lambda group: tuple(group[0][k] for k in _SWEEP)):
        chosen = list(several)
        column, size, _ = key
        names = list(dict.fromkeys(row["model"] for _, rows in chosen for row in rows))
        body = []
        for name in names:
            at = [next((row for row in rows if row["model"] == name), None) for _, rows in chosen]
            cells = ["–" if r is None else f"{float(r['ms']):,.0f} / {float(r['peak_mb']):,.0f}" for r in at]
            last = at[-1]
            cells.append("–" if last is None else f"{float(last['time_ratio']):.2f} / {float(last['peak_ratio']):.2f}")
            found = [(float(w[column]), r) for (w, _), r in zip(chosen, at, strict=True) if r is not None]
            cells.append(" / ".join(_growth([(x, float(r[value])) for x, r in found]) for value in ("ms", "peak_mb")))
            body.append([f"`{name}`", *cells])
        largest = f"{int(chosen[-1][0][column]):,}"
        head = ["ms / peak MB", *(f"{column} {int(where[column]):,}" for where, _ in chosen)]
        head += [f"over {chosen[-1][1][0]['baseline']}, {column} {largest}", "growth"]
        every = [row for _, rows in chosen for row in rows]
        parts.append(f"**By {column}, {size}** ({measured_on(chosen[0][0], every)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


def _growth(points: Sequence[tuple[float, float]]) -> str:
    """The exponent of a power law through these points: the slope of a line through their logarithms."""
    if len({x for x, _ in points}) < 2:
        return "–"
    slope, _ = linear_regression([math.log(x) for x, _ in points], [math.log(y) for _, y in points])
    return f"{slope:.2f}"


def profiles(data: Path, wanted: Targets) -> str:
    """Operations by their share of a step."""
    parts = []
    for where, rows in measured(data, "profile_step"):
        body = [
            [
                f"`{row['operation']}`",
                row["calls"],
                f"{float(row['self_ms']):,.0f}",
                f"{float(row['share']):.0%}",
                f"{float(row['self_mb']):,.0f}",
            ]
            for row in rows
        ]
        head = ["operation", "calls", "self time, ms", "share", "MB allocated minus freed"]
        title = f"{where['model']}, {where['size']}, batch {where['batch']} × {where['length']}"
        parts.append(f"**{title}** ({measured_on(where, rows)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


def throughput(data: Path, wanted: Targets) -> str:
    """Scoring, checking and evaluating."""
    parts = []
    for where, rows in measured(data, "throughput"):
        body = [
            [f"`{row['name']}`", f"{float(row['value']):,.4g}" if float(row["value"]) < 1000
             else f"{float(row['value']):,.0f}", f"{float(row['ratio']):.2f}" if row["ratio"] else "–"]
            for row in rows
        ]  # fmt: skip
        parts.append(
            f"**{where['part']}** ({measured_on(where, rows)})\n\n{markdown(['', rows[0]['unit'], 'ratio'], body)}"
        )
    return "\n\n".join(parts) or NOTHING


def startup(data: Path, wanted: Targets) -> str:
    """Seconds until something happens."""
    groups = measured(data, "startup")
    if not groups:
        return NOTHING
    ((_, rows),) = groups
    body = [
        [
            row["name"],
            f"{float(row['seconds']):.2f}",
            at_most(row["processor_seconds"], wanted["startup"].get(row["name"])),
        ]
        for row in rows
    ]
    return f"{measured_on({}, rows)}\n\n{markdown(['', 's', 'processor, s'], body)}"


def text_memory(data: Path, wanted: Targets) -> str:
    """What an n-gram index takes, by the size of its corpus."""
    groups = measured(data, "text_memory")
    if not groups:
        return NOTHING
    ((_, rows),) = groups
    said = {
        "build_s": "building time, s",
        "build_gb": "memory while building, GB",
        "disk_gb": "on disk, GB",
        "alone_ms_mean": "one query alone, mean, ms",
        "alone_ms_p99": "one query alone, 99th percentile, ms",
        "together_ms_mean": "per token in a batch of 512, ms",
        "asking_gb": "memory during queries, GB",
    }
    head = ["", *(f"{int(row['tokens']):,} tokens" for row in rows)]
    body = [[name, *(at_most(row[key], wanted["text_memory"].get(key)) for row in rows)] for key, name in said.items()]
    return f"{measured_on({}, rows)}\n\n{markdown(head, body)}"


def audit(data: Path, wanted: Targets) -> str:
    """What an audit takes, against one forward pass of its largest batch."""
    parts = []
    for where, rows in measured(data, "audit_cost"):
        body = []
        for row in rows:
            aims = wanted["audit"].get(row["effort"], {})
            pass_of = f"{row['batch']} × {row['length']}: {float(row['forward_s']):.2f} s"
            cells = [f"`--{row['effort']}`", pass_of, at_most(row["s"], aims.get("s"))]
            cells.append(f"{float(row['s_lowest']):.1f}–{float(row['s_highest']):.1f}")
            for column in ("", "above_"):
                cells.append(f"{float(row[column + 'mb']):,.0f}")
                cells.append(at_most(row[f"{column}ratio"], aims.get(f"{column}ratio")))
            body.append(cells)
        head = ["", "one forward pass", "check, s", "lowest and highest round", "process, MB", "relative to the pass"]
        head += ["above the model, MB", "relative to the pass"]
        parts.append(f"**{where['size']}** ({measured_on({}, rows)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


def datastore(data: Path, wanted: Targets) -> str:
    """What a datastore takes, and how each search does beside the exact one."""
    parts, aims = [], wanted["datastore"]
    for where, rows in measured(data, "datastore"):
        further = [row for row in rows if row["search"] != "exact"]
        body = [_exact(row, aims) for row in rows if row["search"] == "exact"]
        further_aims = aims.get("approximate", {})
        body += [_approximate(row, further_aims) for row in further]
        size, build = (at_most(rows[0][key], aims.get(key)) for key in ("bytes_over_keys", "build_over_forward"))
        title = f"**{int(where['keys']):,} keys of width {where['width']}, {where['data']}** ({measured_on({}, rows)})"
        said = (
            f"Building time relative to a forward pass: {build}; to one without the output layer: "
            f"{float(rows[0]['build_over_states']):.2f}. Size on disk relative to that of the keys: {size}."
        )
        if further_aims:
            reached = [_search(row) for row in further if _reaches(row, further_aims)]
            said += f" All three targets of an index at once: {', '.join(reached) or '**none**'}."
        head = [
            "search",
            "ms per query",
            "relative to numpy",
            "relative to numpy in memory",
            "times as fast as exact",
            "recall@10",
            "perplexity",
            "change of perplexity, %",
        ]
        parts.append(f"{title}\n\n{said}\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


def _exact(row: Row, aims: Targets) -> list[str]:
    over = at_most(row["over_numpy"], aims.get("over_numpy"))
    memory, perplexity = (f"{float(row[key]):.2f}" for key in ("over_in_memory", "perplexity"))
    return [_search(row), row["ms_a_query"], over, memory, "1", "1", perplexity, "–"]


def _approximate(row: Row, aims: Mapping[str, float]) -> list[str]:
    faster, recall = (at_least(row[key], aims.get(key)) for key in ("faster_than_exact", "recall_at_10"))
    off = at_most(row["perplexity_off_percent"], aims.get("perplexity_off_percent"))
    return [_search(row), row["ms_a_query"], "–", "–", faster, recall, f"{float(row['perplexity']):.2f}", off]


def _search(row: Row) -> str:
    return f"{row['search']} {row['parameters']}".strip()


def _reaches(row: Row, aims: Mapping[str, float]) -> bool:
    least = all(float(row[key]) >= aims[key] for key in ("recall_at_10", "faster_than_exact"))
    return least and float(row["perplexity_off_percent"]) <= aims["perplexity_off_percent"]


def serving(data: Path, wanted: Targets) -> str:
    """Throughput of many requests at once, each head beside softmax in the same engine."""
    parts = []
    for where, rows in measured(data, "serving_speed"):
        if where["read_before"] == "True":
            continue
        body = [
            [f"`{row['head']}`", row["tokens_per_s"], at_least(row["over_softmax"], wanted["serving"].get(row["head"]))]
            for row in rows
        ]
        title = (
            f"**{where['engine']} {where['engine_version']}: {where['requests']} requests, prompts up to "
            f"{where['length']}, {where['new']} new tokens** ({where['size']}, {measured_on({}, rows)})"
        )
        parts.append(f"{title}\n\n{markdown(['', 'tokens per second', 'over softmax'], body)}")
    return "\n\n".join(parts) or NOTHING


def context(data: Path, wanted: Targets) -> str:
    """Milliseconds of a token by how much was read before it, and how they grow."""
    groups = [(where, rows) for where, rows in measured(data, "serving_speed") if where["read_before"] == "True"]
    parts = []
    for _, several in groupby(groups, lambda group: [group[0][key] for key in ("engine", "engine_version", "size")]):
        chosen = list(several)
        names = list(dict.fromkeys(row["head"] for _, rows in chosen for row in rows))
        body = []
        for name in names:
            at = [next((row for row in rows if row["head"] == name), None) for _, rows in chosen]
            body.append([f"`{name}`", *("–" if row is None else f"{1000 / float(row['tokens_per_s']):.1f} / "
                                        f"{float(row['over_softmax']):.2f}" for row in at)])  # fmt: skip
        where = chosen[0][0]
        title = f"**{where['engine']} {where['engine_version']}: {where['requests']} requests**"
        head = ["ms per token / relative to softmax", *(f"context of {int(one['length']):,}" for one, _ in chosen)]
        every = [row for _, rows in chosen for row in rows]
        parts.append(f"{title} ({where['size']}, {measured_on({}, every)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


def long_memory(data: Path, wanted: Targets) -> str:
    """What a memory beyond the window takes, against the same step without."""
    parts = []
    for where, rows in measured(data, "long_memory"):
        body = [
            [row["name"], f"{int(row['positions']):,}", f"{float(row['ms']):,.0f}", f"{float(row['baseline_ms']):,.0f}",
             at_most(row["ratio"], wanted["long_memory"].get(row["name"])),
             f"{float(row['lowest']):.2f}–{float(row['highest']):.2f}", row["largest_mb"] or "–"]
            for row in rows
        ]  # fmt: skip
        head = ["", "stored positions", "ms", "baseline, ms", "ratio", "lowest and highest round", "largest tensor, MB"]
        title = f"{where['size']}, {where['batch']} × {where['length']}"
        parts.append(f"**{title}** ({measured_on(where, rows)})\n\n{markdown(head, body)}")
    return "\n\n".join(parts) or NOTHING


TABLES: dict[str, Callable[[Path, Targets], str]] = {
    "cost": cost,
    "training": training,
    "decoding": decoding,
    "history": history,
    "sweeps": sweeps,
    "profile": profiles,
    "throughput": throughput,
    "startup": startup,
    "corpus": text_memory,
    "audit": audit,
    "store": datastore,
    "serving": serving,
    "context": context,
    "beyond": long_memory,
}
"""What the page has, by the name of its markers."""
