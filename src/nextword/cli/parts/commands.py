"""The commands by name. The module of a command is imported when the command is called."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from nextword.cli.parts.errors import plain_errors
from nextword.settings import plugins

VERBS = {
    "quickstart": (
        "nextword.cli.first_look.quickstart:quickstart",
        "Compare heads on built-in data in about a minute",
    ),
    "train": ("nextword.cli.train:train", "Train a model, evaluate it, check it and save it"),
    "attach": ("nextword.cli.attach_head:attach", "Put another head on a finished model, without training"),
    "compare": ("nextword.cli.compare:compare", "Train and evaluate several heads under equal conditions"),
    "score": ("nextword.cli.score:score", "Perplexity of texts, nats per token, bits per byte"),
    "evaluate": ("nextword.cli.evaluate:evaluate", "Metrics of generated texts, with intervals and tests"),
    "generate": ("nextword.cli.generate:generate", "Generate texts after prompts"),
    "count": ("nextword.cli.count:count", "Count the tokens of a corpus"),
    "classes": ("nextword.cli.classes:classes", "Show the token classes of the head f2"),
    "serve": ("nextword.cli.serve:serve", "Serve a model over HTTP, with a playground"),
    "check": ("nextword.cli.check:check", "Check that a model's probabilities are consistent"),
    "inspect": ("nextword.cli.inspect:inspect", "Show each token's probability and where it came from"),
    "reproduce": ("nextword.cli.reproduce:reproduce", "Measure a paper's table and test its claims"),
    "report": ("nextword.cli.report:report", "Rewrite the report of results, and print the table"),
    "datastore": ("nextword.cli.groups.datastore:app", "Build and index datastores for the head knn"),
    "states": ("nextword.cli.groups.states:app", "Store a model's hidden states, to train heads without the model"),
    "survey": ("nextword.cli.groups.survey:app", "Human evaluation: make a survey, analyse the answers"),
    "ngram": ("nextword.cli.groups.ngram:app", "Index the n-grams of a corpus for the head ngram"),
    "list": ("nextword.cli.list:app", "List heads, objectives, conditioners, metrics, tasks, recipes"),
}
"""Every command, in the order of ``nextword --help``: its ``module:member``, and its line in the output of ``nextword
--help``. The line is here, because the command's own help text is in its module, which ``nextword --help`` does not
import."""

OLD_NAMES = {"text-memory": "ngram"}
"""The current name of each renamed command."""

OLD_OPTIONS = {"--places": "--positions"}
"""The current name of each renamed option."""


class Verb(TyperCommand):
    """A command whose module is imported only when the command is called or completed, or when its help is shown."""

    def __init__(self, name: str, place: str, line: str) -> None:
        super().__init__(name, help=line)
        self._place = place

    def loaded(self) -> Any:
        """Import the command's module and return the command with its options."""
        module, _, member = self._place.partition(":")
        found, holder = getattr(import_module(module), member), typer.Typer()
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=self.name)
        else:
            holder.command(self.name)(found)
        command = get_group(holder).commands[str(self.name)]
        for one in (command, *getattr(command, "commands", {}).values()):
            # typer joins only the lines of the first paragraph; lines of other paragraphs would be broken twice
            paragraphs = cleandoc(one.help or "").split("\n\n")
            one.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the context of the imported command. Old option names in ``args`` are replaced, with a message."""
        return self.loaded().make_context(info_name, [_of_today(arg) for arg in args], parent, **extra)


def _of_today(arg: str) -> str:
    name, is_given, value = arg.partition("=")
    if name in OLD_OPTIONS:
        typer.echo(f"'{name}' is called '{OLD_OPTIONS[name]}' now", err=True)
    return OLD_OPTIONS.get(name, name) + is_given + value


class Commands(TyperGroup):
    """All commands. If ``--import`` is given after a command, the error explains that it must come first."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (place, line) in VERBS.items():
            self.add_command(Verb(name, place, line))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called ``cmd_name``. For an old name, also print the current one."""
        if (name := OLD_NAMES.get(cmd_name)) is not None:
            typer.echo(f"'{cmd_name}' is called '{name}' now", err=True)
            cmd_name = name
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Exception as fault:  # typer has its own private copy of this class of click
            if getattr(fault, "option_name", None) == "--import":
                told: Any = fault
                told.message += ". Put it before the command: nextword --import MODULE COMMAND ..."
            raise


# -- ``--import MODULE``: components of the user's own, for every command.

Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="A Python module with your own heads, objectives, conditioners, metrics or tasks. Put it before the "
        "command: nextword --import my.module list heads. May be repeated.",
    ),
]


@plain_errors
def request(modules: list[str]) -> None:
    """Register the named modules as plug-ins. Modules in the current folder are found too, as with ``python -m``."""
    if modules and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for module in modules:
        plugins.request(module)
