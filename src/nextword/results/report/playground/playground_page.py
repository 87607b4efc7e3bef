"""The page to play with a served model; it asks the server that sent it, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from nextword.results.report.inspection.inspection_page import content_hash
from nextword.results.report.parts.palette import switchable_variables
from nextword.results.report.parts.template import packaged, template


@dataclass(frozen=True)
class Page:
    """A page, and the headers that it is sent with."""

    html: str
    headers: dict[str, str]


def playground_page(model: str, spec: str, *, needs_key: bool) -> Page:
    """The page of one model.

    Args:
        model: What it is called.
        spec: Head and objective.
        needs_key: Whether the server asks for a key.
    """
    style = Markup(switchable_variables() + packaged("playground/playground.css"))
    script = Markup('"use strict";\n' + packaged("trace/elements.js") + packaged("playground/playground.js"))
    html = template("playground/playground.html.j2").render(
        style=style, script=script, model=model, spec=spec, needs_key=needs_key
    )
    policy = [
        "default-src 'none'",
        f"script-src '{content_hash(script)}'",
        f"style-src '{content_hash(style)}'",
        "img-src data:",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return Page(html, {"Content-Security-Policy": "; ".join(policy), "X-Content-Type-Options": "nosniff"})
