"""``--import MODULE``: parts of one's own, for every command."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nextword import plugins
from nextword.cli.parts.errors import plain_errors

Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A Python module with heads, objectives, conditioners, metrics or tasks of your own. Stands before the "
        "command: nextword --import my.module list heads. May be repeated.",
    ),
]


class Commands(TyperGroup):
    """All commands. Where ``--import`` is given after one, the error says that it stands before it."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was given."""
        try:
            return super().invoke(ctx)
        except Exception as fault:  # typer brings its own copy of click's class, under a private name
            if getattr(fault, "option_name", None) == "--import":
                told: Any = fault
                told.message += ". It stands before the command: nextword --import MODULE COMMAND ..."
            raise


@plain_errors
def request(modules: list[str]) -> None:
    """Makes modules plug-ins; those in the current folder are found too, as with ``python -m``."""
    if modules and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for module in modules:
        plugins.request(module)
