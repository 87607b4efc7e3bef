"""The command line. Each command parses its arguments, calls one function of the library and prints the result.

A command's module is imported when the command is called, and torch only when the work begins. So help and errors in
arguments appear immediately.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nextword.cli.parts.commands import Commands, Modules, request

app = typer.Typer(
    name="nextword",
    cls=Commands,
    help="Better next-word distributions for Hugging Face language models: train them, compare them, check them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import nextword

        typer.echo(f"nextword {nextword.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    modules: Modules = None,
) -> None:
    """Register the plug-ins ``modules``, and set the environment variables that torch and tokenizers read on import."""
    request(modules or [])
    # without this, a tokenizer that was used before a data loader forks would print a warning at each fork
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # without this, torch's allocator would sometimes print warnings when its memory is measured
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
