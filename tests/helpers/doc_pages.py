"""Pages of the documentation, their examples and their formulas."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from nextword.evaluation.survey.kinds import registry as surveys

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_TAB = re.compile(r"^=== \".*\"\n((?:    .*\n|\n)+)", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_DISPLAY = re.compile(r"^\$\$\n(.*?)^\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"\$([^$\n]+)\$")
_FAULTS = {
    r"an escape that Markdown takes away; spell it out, as \lbrace": re.compile(r"\\[^A-Za-z\s\\]|\\\\(?!\n)"),
    "an underscore that may begin emphasis; put a letter or a digit before it": re.compile(r"[^A-Za-z0-9]_"),
    r"a character of Markdown; take \mid, \ast, or a space after <": re.compile(r"[|*]|<\S"),
}
"""What GitHub's Markdown reads before the formula is shown, by the reason."""


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str, language: str) -> list[str]:
    """Code of a language, also inside of tabs."""
    untabbed = _TAB.sub(lambda tab: textwrap.dedent(tab[1]), text)
    return [body for kind, body in FENCE.findall(untabbed) if kind == language]


def formula_faults(text: str) -> Iterator[str]:
    """Formulas of a page that GitHub shows otherwise than meant."""
    prose = _CODE.sub("", FENCE.sub("", text))
    rest = _DISPLAY.sub("", prose)
    for formula in [*_DISPLAY.findall(prose), *_INLINE.findall(rest)]:
        yield from (f"{formula!r}: {fault}" for fault, pattern in _FAULTS.items() if pattern.search(formula))
    if "$" in _INLINE.sub("", rest):
        yield "a formula without its end, or broken over two lines"


def survey_faults(line: str, kind: str, given: str) -> Iterator[str]:
    """Of a setting of a survey of that kind, ``setting=value``."""
    name = given.partition("=")[0].partition(".")[0]
    if kind not in surveys.names() or name not in surveys.get(kind).Config.model_fields:
        yield f"{line}: a survey '{kind}' has no setting {name}"


def website_module(name: str) -> ModuleType:
    """A script of the folder website."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "website" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
