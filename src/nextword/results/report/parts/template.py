"""The templates and the stylesheet of the pages."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from nextword.results.report.parts.palette import variables

if TYPE_CHECKING:
    import jinja2


def packaged(name: str) -> str:
    """Text of a file that lies beside this one."""
    return (resources.files("nextword.results.report") / "templates" / name).read_text(encoding="utf-8")


def style() -> Markup:
    """The style sheet of every page."""
    return Markup(variables() + packaged("page.css"))


def template(name: str) -> jinja2.Template:
    """A template: everything that is put in is escaped, and an unknown name is an error."""
    import jinja2  # not for tables in a terminal

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(packaged),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)
