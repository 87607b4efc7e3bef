"""Templates and style sheet of the pages."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    import jinja2


def packaged(name: str) -> str:
    """Read the file ``name`` from the folder ``templates`` beside this module."""
    return (resources.files("nextword.results.report") / "templates" / name).read_text(encoding="utf-8")


def style() -> Markup:
    """The style sheet of every page."""
    return Markup(variables() + packaged("page.css"))


def template(name: str) -> jinja2.Template:
    """Load a template. When it is rendered, inserted values are escaped, and a variable without a value is an error."""
    import jinja2  # imported here, because tables in a terminal do not need it

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(packaged),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)


# -- The colours of the page and its figures, in the light and the dark theme.
#
# A figure is drawn with the light colours. On the page, each colour becomes a CSS variable, so that one figure works in
# both themes.

INK = "#1f2328"
SOFT = "#57606a"
EDGE = "#8b949e"
FAINT = "#d8dde3"
PAPER = "#ffffff"

METHODS = ("#0072b2", "#d55e00", "#00856a", "#b0479a", "#9a7200", "#332288", "#2683bb", "#666666")
"""Colours of methods. They can be distinguished with any colour vision."""

_METHODS_IN_DARK = ("#58b0ea", "#ff8c42", "#2fc4a0", "#e08bd0", "#d9b23c", "#a79cf0", "#9bd3f5", "#b0b0b0")

THEMES = {
    "ink": (INK, "#e6e9ed"),
    "soft": (SOFT, "#a6b0bb"),
    "edge": (EDGE, "#78828d"),
    "line": (FAINT, "#343b44"),
    "paper": (PAPER, "#14181d"),
    "wash": ("#f6f8fa", "#1c2229"),
    "accent": ("#0a5ea8", "#6db5f5"),
    "best": ("#eaf3fb", "#16324a"),
    "mark": ("#fdeeb5", "#4d3c05"),
    "mark-line": ("#9a6700", "#e3b341"),
    "word": ("#fde3df", "#4f1f1a"),
    "word-line": ("#c0392b", "#ff8a7a"),
    "again": ("#daf3e0", "#123f24"),
    "again-line": ("#1a7f37", "#57d17b"),
    **{f"m{place}": pair for place, pair in enumerate(zip(METHODS, _METHODS_IN_DARK, strict=True))},
}
"""Colours of the light and the dark theme, by CSS variable."""

_NAMES = {light: name for name, (light, _) in THEMES.items()}


def variable(colour: str) -> str:
    """The CSS variable of a colour of the light theme.

    >>> variable("#1f2328"), variable("#0072b2")
    ('var(--ink)', 'var(--m0)')
    """
    return f"var(--{_NAMES[colour]})"


def themed(style: str) -> str:
    """Replace the colours of the light theme in CSS by their variables.

    >>> themed("fill: #1f2328; stroke: #123456")
    'fill: var(--ink); stroke: #123456'
    """
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: variable(found[0]) if found[0] in _NAMES else found[0], style)


def variables() -> str:
    """The style sheet that sets the colour variables for the reader's theme, or on paper for the light theme."""
    light, dark = (" ".join(f"--{name}: {pair[place]};" for name, pair in THEMES.items()) for place in (0, 1))
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )


def switchable_variables() -> str:
    """Like ``variables``, for a page with a theme switch: ``data-theme`` on the root overrides the reader's theme."""
    colours = " ".join(f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in THEMES.items())
    return (
        f":root {{ color-scheme: light dark; {colours} }}\n"
        ":root[data-theme=light] { color-scheme: light; }\n"
        ":root[data-theme=dark] { color-scheme: dark; }\n"
        "@media print { :root, :root[data-theme] { color-scheme: light; } }\n"
    )
