"""The page of ``nextword inspect``: one HTML file that needs no network and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from typing import Any

from markupsafe import Markup

from nextword.results.records.token_trace import TraceRecord
from nextword.results.report.inspection.model_difference import difference
from nextword.results.report.parts import formats
from nextword.results.report.parts.palette import switchable_variables
from nextword.results.report.parts.template import packaged, template

SCRIPTS = ("traces", "measures", "elements", "text", "distribution", "panel", "search", "start")
"""Files of the page's script, in the order in which they use one another."""

DECIMALS = 3
"""Of nats and shares in the page: finer than any eye, and half the file."""

ROWS = 12
"""Differences of two models that are shown before more are asked for."""
MORE_ROWS = 100
"""Differences that the page lists in all; the colours of the text show every one."""

_UNSAFE = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}"}


def trace_page(record: TraceRecord, other: TraceRecord | None = None) -> str:
    """The page of a trace, or of two traces of one text by two models.

    Tokens stand in running text, coloured by what the reader chooses; one that is opened shows its most probable
    tokens and the places that its probability came from. With two models the page begins with where they differ.

    Args:
        record: What a model said of the text.
        other: What another model said of the same tokens.

    Raises:
        ValueError: The traces are not of the same token ids.
    """
    records = [record] if other is None else [record, other]
    style = Markup(switchable_variables() + packaged("trace/trace.css"))
    script = Markup('"use strict";\n' + "\n".join(packaged(f"trace/{name}.js") for name in SCRIPTS))
    return template("trace/trace.html.j2").render(
        policy=content_policy(script, style),
        style=style,
        script=script,
        traces=embedded([_rounded(one.model_dump(mode="json")) for one in records]),
        title=_title(records),
        models=[_facts(one) for one in records],
        lead=_lead(record),
        difference=None if other is None else difference(record, other),
        rows=ROWS,
        more_rows=MORE_ROWS,
        roles=[role for role in ("source", "auxiliary", "store") if any(role in one.texts for one in records)],
        bits=lambda nats: nats / math.log(2),
        count=lambda number: f"{number:,}",
        version=record.nextword,
    )


def content_policy(script: str, style: str) -> str:
    """The page's content security policy: its own script and style, known by their hashes, and nothing else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{content_hash(script)}'",
            f"style-src '{content_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def content_hash(text: str) -> str:
    """What a content security policy calls a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def embedded(content: Any) -> Markup:
    """JSON for a ``<script>`` block: no text in it can end the block or begin another."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_UNSAFE))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


def _title(records: list[TraceRecord]) -> str:
    return " and ".join(record.model.name for record in records)


def _lead(record: TraceRecord) -> str:
    tokens, read = len(record.tokens.log_prob), record.first
    predicted = "1 token" if tokens == 1 else f"{tokens:,} tokens"
    return f"{predicted} predicted" + (f", after {read:,} that were only read" if read > 1 else "")


def _facts(record: TraceRecord) -> dict[str, Any]:
    """What the head of the page says of a model."""
    nats = -math.fsum(record.tokens.log_prob) / max(len(record.tokens.log_prob), 1)
    model = record.model
    spec = "/".join([model.head, model.objective])
    return {
        "name": model.name,
        "spec": spec if model.conditioner is None else f"{spec}, {model.conditioner}",
        "backbone": f"{model.backbone}, {formats.count(model.parameters)} parameters",
        "window": record.window,
        "perplexity": _digits(math.exp(min(nats, 700.0)) if math.isfinite(nats) else nats),
        "bits": _digits(nats / math.log(2)),
        "first": sum(rank == 1 for rank in record.tokens.rank) / max(len(record.tokens.rank), 1),
    }


def _digits(number: float) -> str:
    return formats.digits(number) if math.isfinite(number) else "∞"
