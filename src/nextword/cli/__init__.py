"""The command line: each verb parses, calls one function of the library and prints.

Nothing heavy is imported here or in the modules of the verbs, so that ``nextword --help`` answers at once.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from nextword.cli.attach_head import attach
from nextword.cli.check import check
from nextword.cli.classes import classes
from nextword.cli.compare import compare
from nextword.cli.count import count
from nextword.cli.evaluate import evaluate
from nextword.cli.generate import generate
from nextword.cli.groups.datastore import app as datastore_app
from nextword.cli.groups.survey import app as survey_app
from nextword.cli.groups.text_memory import app as text_memory_app
from nextword.cli.inspect import inspect
from nextword.cli.list import app as list_app
from nextword.cli.parts.plugin_option import Commands, Modules, request
from nextword.cli.quickstart import quickstart
from nextword.cli.report import report
from nextword.cli.reproduce import reproduce
from nextword.cli.score import score
from nextword.cli.serve import serve
from nextword.cli.train import train

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
    """Set what must be set before torch and tokenizers are imported."""
    request(modules or [])
    # A tokenizer that was used before a data loader forks warns at each fork otherwise.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # The measurement of memory makes torch's allocator warn, once in a while, about what it was not told of before.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


app.command()(quickstart)
app.command()(train)
app.command()(attach)
app.command()(compare)
app.command()(score)
app.command()(evaluate)
app.command()(generate)
app.command()(count)
app.command()(classes)
app.command()(serve)
app.command()(check)
app.command()(inspect)
app.command()(reproduce)
app.command()(report)
app.add_typer(datastore_app, name="datastore")
app.add_typer(survey_app, name="survey")
app.add_typer(text_memory_app, name="text-memory")
app.add_typer(list_app, name="list")
