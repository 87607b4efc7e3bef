"""The page of ``nextword inspect``: one HTML file that loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nextword.results.records.token_trace import TraceRecord
from nextword.results.report import formats
from nextword.results.report.template import packaged, switchable_variables, template

SCRIPTS = ("traces", "measures", "elements", "text", "distribution", "panel", "search", "start")
"""Names of the files that make up the page's script. A file comes after the files that it needs."""

DECIMALS = 3
"""Decimals of nats and shares in the page. Fewer decimals halve the file's size without a visible change."""

ROWS = 12
"""Number of differences that are listed before a click on "more"."""
MORE_ROWS = 100
"""Maximum number of differences that are listed at all. The colours of the text show all differences."""

_UNSAFE = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}"}


def trace_page(record: TraceRecord, other: TraceRecord | None = None) -> str:
    """Render the page of a trace, or of two traces of the same text by two models.

    The page shows the text, with tokens coloured by a selectable value. A click on a token shows the most probable
    tokens at its position, and the positions that contributed to its probability. With ``other``, the page begins with
    the tokens on which the models differ most.

    Raises:
        ValueError: If the traces do not have the same token ids.
    """
    records = [record] if other is None else [record, other]
    style = Markup(switchable_variables() + packaged("trace/trace.css"))
    script = Markup('"use strict";\n' + "\n".join(packaged(f"trace/{name}.js") for name in SCRIPTS))
    return template("trace/trace.html.j2").render(
        policy=content_policy(script, style),
        style=style,
        script=script,
        traces=embedded([_rounded(one.model_dump(mode="json")) for one in records]),
        title=" and ".join(one.model.name for one in records),
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


def content_policy(script: str, style: str, *, served: bool = False) -> str:
    """The page's content security policy. It allows only the page's own script and style, identified by hashes.

    If ``served``, the page may also send requests to its own server, and other sites may not show it in a frame.
    """
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    parts = ["default-src 'none'", f"script-src 'sha256-{hashes[0]}'", f"style-src 'sha256-{hashes[1]}'"]
    parts += ["img-src data:", *(["connect-src 'self'", "frame-src 'self'"] if served else [])]
    parts += ["base-uri 'none'", "form-action 'none'", *(["frame-ancestors 'none'"] if served else [])]
    return "; ".join(parts)


def embedded(content: Any) -> Markup:
    """Write ``content`` as JSON for a ``<script>`` block, so that no text can end the block or begin another."""
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


def _lead(record: TraceRecord) -> str:
    tokens, read = len(record.tokens.log_prob), record.first
    predicted = "1 token" if tokens == 1 else f"{tokens:,} tokens"
    return f"{predicted} predicted" + (f", after {read:,} that were only read" if read > 1 else "")


def _facts(record: TraceRecord) -> dict[str, Any]:
    nats = -math.fsum(record.tokens.log_prob) / max(len(record.tokens.log_prob), 1)
    model = record.model
    spec = "/".join([model.head, model.objective])
    return {
        "name": model.name,
        "spec": spec if model.conditioner is None else f"{spec}, {model.conditioner}",
        "backbone": f"{model.backbone}, {formats.count(model.parameters)} parameters",
        "window": record.window,
        "perplexity": formats.digits(math.exp(min(nats, 700.0))) if math.isfinite(nats) else "∞",
        "bits": formats.digits(nats / math.log(2)) if math.isfinite(nats) else "∞",
        "first": sum(rank == 1 for rank in record.tokens.rank) / max(len(record.tokens.rank), 1),
    }


# -- The tokens on which two models differ, for one text.

BEFORE, AFTER = 6, 4
"""Number of context tokens that a row shows before and after its token."""

LARGEST = 10_000
"""Largest factor that is shown as a number. Above it the page shows only that the factor is larger."""

ALIKE = 0.005
"""Minimum difference of log-probabilities in nats for a token to be listed: half a percent of the probability."""


@dataclass(frozen=True)
class TokenDifference:
    """One token to which the models gave different probabilities.

    Attributes:
        index: Index of the token in the text.
        nats: Second model's log-probability minus the first model's. Infinite if one of them is -inf.
        before: The text before the token.
        token: Display text of the token.
        after: The text after the token.
    """

    index: int
    nats: float
    before: str
    token: str
    after: str

    @property
    def amount(self) -> str:
        """Absolute value of ``nats``, formatted."""
        return f"{abs(self.nats):.2f}" if math.isfinite(self.nats) else "∞"

    @property
    def factor(self) -> str:
        """The larger probability divided by the smaller one, formatted."""
        if math.isinf(self.nats):
            return "∞"
        if abs(self.nats) > math.log(LARGEST):
            return f"over {LARGEST:,}"
        factor = math.exp(abs(self.nats))
        return f"{factor:,.0f}" if factor >= 10 else f"{factor:.2f}"


@dataclass(frozen=True)
class ModelDifference:
    """Comparison of two models on the same tokens.

    Attributes:
        total: Sum over all tokens, except those in ``never``, of the second model's log-probability minus the first's,
            in nats. If it is positive, the second model is better.
        of: First model's negative log-likelihood, in nats, of all tokens that are possible under both models.
        gained: The nats gained on tokens on which the second model is better, and the number of these tokens.
        lost: The nats lost on tokens on which the first model is better, and the number of these tokens.
        never: Number of tokens to which exactly one of the models gives probability 0.
        rows: Tokens whose log-probabilities differ by at least ``ALIKE`` nats, largest difference first.
    """

    total: float
    of: float
    gained: tuple[float, int]
    lost: tuple[float, int]
    never: int
    rows: tuple[TokenDifference, ...]


def difference(one: TraceRecord, other: TraceRecord) -> ModelDifference:
    """Compare two models token by token.

    Raises:
        ValueError: If they did not predict the same tokens.
    """
    expect_same_tokens(one, other)
    pairs = list(zip(one.tokens.log_prob, other.tokens.log_prob, strict=True))
    nats = [0.0 if a == b else b - a for a, b in pairs]  # if both are -inf, they do not differ
    finite = [each for each in nats if math.isfinite(each)]
    order = sorted((at for at in range(len(nats)) if abs(nats[at]) >= ALIKE), key=lambda at: -abs(nats[at]))
    gains, losses = [each for each in finite if each > 0], [-each for each in finite if each < 0]
    return ModelDifference(
        total=math.fsum(finite),
        of=-math.fsum(a for a, b in pairs if math.isfinite(a) and math.isfinite(b)),
        gained=(math.fsum(gains), len(gains)),
        lost=(math.fsum(losses), len(losses)),
        never=len(nats) - len(finite),
        rows=tuple(_row(one, one.first + at, nats[at]) for at in order),
    )


def expect_same_tokens(one: TraceRecord, other: TraceRecord) -> None:
    """Raise ValueError unless both traces have the same tokens of the same text."""
    names = f"'{one.model.name}' and '{other.model.name}'"
    left, right = one.texts["text"].ids, other.texts["text"].ids
    if left != right:
        at = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
        where = f"{len(left)} and {len(right)} tokens" if at is None else f"they part at token {at + 1}"
        raise ValueError(
            f"traces of {names}: must be of the same token ids ({where}); trace one text with two models that share a "
            "tokenizer"
        )
    pieces = zip(one.texts["text"].pieces, other.texts["text"].pieces, strict=True)
    for at, (here, there) in enumerate(pieces, start=1):
        if here != there:
            raise ValueError(
                f"traces of {names}: must be of the same text (token {at} is {here!r} and {there!r}); trace one text "
                "with two models that share a tokenizer"
            )
    if one.first != other.first:
        raise ValueError(
            f"traces of {names}: must begin at the same token ({one.first} and {other.first} given); trace both with "
            "the same prompt"
        )


def _row(trace: TraceRecord, index: int, nats: float) -> TokenDifference:
    text = trace.texts["text"]
    before = "".join(text.pieces[max(index - BEFORE, 0) : index])
    after = "".join(text.pieces[index + 1 : index + 1 + AFTER])
    token = text.pieces[index].lstrip(" ")  # the space before a word is shown, but not highlighted
    space = " " * (len(text.pieces[index]) - len(token)) if token else ""
    shown = token if token.strip() else trace.vocabulary[text.ids[index]]
    return TokenDifference(index, nats, before + space, shown, after)


# -- The page for trying out a served model. It sends requests only to the server that it came from.


@dataclass(frozen=True)
class Page:
    """A page with its HTTP headers."""

    html: str
    headers: dict[str, str]


def playground_page(model: str, spec: str, *, needs_key: bool) -> Page:
    """Render the playground page of the model named ``model``, whose head and objective are ``spec``.

    If ``needs_key``, the page has a field for the server's API key.
    """
    style = Markup(switchable_variables() + packaged("playground/playground.css"))
    script = Markup('"use strict";\n' + packaged("trace/elements.js") + packaged("playground/playground.js"))
    html = template("playground/playground.html.j2").render(
        style=style, script=script, model=model, spec=spec, needs_key=needs_key
    )
    policy = content_policy(script, style, served=True)
    return Page(html, {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"})
