"""Prints errors of the command line as one line that says what to do, without a traceback."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from nextword.runtime import processes
from nextword.settings.setting_names import of_command

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

USER_ERROR = 2
RUNS_FAILED = 3
"""Exit code of a comparison in which some runs failed."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells expect."""


def plain_errors(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Decorate a command so that ValueError, OSError and a full disk become ``error: ...`` on stderr and exit code 2.

    Any other exception is a bug in nextword and keeps its traceback. With ``NEXTWORD_DEBUG=1``, all exceptions keep it.
    """

    @functools.wraps(command)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            with of_command(partial(options_of, guarded)):
                return command(*args, **kwargs)
        except Exception as problem:
            said = None if os.environ.get("NEXTWORD_DEBUG") == "1" else _said(problem)
            if said is not None:
                processes.wait_for_main_error()
                complain(said)
                raise typer.Exit(USER_ERROR) from None
            if isinstance(problem, RuntimeError):
                processes.let_others_speak()
            raise

    return guarded


def _said(problem: Exception) -> str | None:
    from nextword.runtime.files import DiskFullError, full_disk, no_room

    reason = full_disk(problem)
    if reason is not None and not isinstance(problem, DiskFullError):  # the error does not say which file was written
        return no_room("standard output, or a temporary file,", reason)
    return str(problem) if isinstance(problem, ValueError | OSError) else None


@functools.cache
def options_of(command: Callable[..., object]) -> dict[str, str]:
    """Mapping from parameter name of ``command`` to option name, such as ``text_column`` to ``--text-column``."""
    hints = get_type_hints(command, include_extras=True)
    options = [(name, one) for name, hint in hints.items() for one in get_args(hint)[1:] if isinstance(one, OptionInfo)]
    return {
        name: next((one for one in option.param_decls or () if one.startswith("--")), f"--{name.replace('_', '-')}")
        for name, option in options
    }


def complain(message: str, kind: str = "error") -> None:
    """Print ``kind: message`` in red to stderr."""
    from rich.console import Console
    from rich.text import Text

    # Text and not markup, because messages contain square brackets
    Console(stderr=True, soft_wrap=True).print(Text(f"{kind}: {message}", style="bold red"))
