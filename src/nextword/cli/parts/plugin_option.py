"""``--import MODULE``: parts of one's own, for every command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.settings import plugins

Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A Python module with heads, objectives, conditioners, metrics or tasks of your own. Stands before the "
        "command: nextword --import my.module list heads. May be repeated.",
    ),
]


@plain_errors
def request(modules: list[str]) -> None:
    """Makes modules plug-ins; those in the current folder are found too, as with ``python -m``."""
    if modules and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for module in modules:
        plugins.request(module)
