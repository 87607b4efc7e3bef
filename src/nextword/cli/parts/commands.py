"""The commands by name: what one of them needs is imported when that one is called."""

from __future__ import annotations

import ast
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from nextword.cli.parts.errors import plain_errors
from nextword.settings import plugins
from nextword.settings.plugins import sources

VERBS = {
    "quickstart": "nextword.cli.first_look.quickstart:quickstart",
    "train": "nextword.cli.train:train",
    "attach": "nextword.cli.attach_head:attach",
    "compare": "nextword.cli.compare:compare",
    "score": "nextword.cli.score:score",
    "evaluate": "nextword.cli.evaluate:evaluate",
    "generate": "nextword.cli.generate:generate",
    "count": "nextword.cli.count:count",
    "classes": "nextword.cli.classes:classes",
    "serve": "nextword.cli.serve:serve",
    "check": "nextword.cli.check:check",
    "inspect": "nextword.cli.inspect:inspect",
    "reproduce": "nextword.cli.reproduce:reproduce",
    "report": "nextword.cli.report:report",
    "datastore": "nextword.cli.groups.datastore:app",
    "states": "nextword.cli.groups.states:app",
    "survey": "nextword.cli.groups.survey:app",
    "ngram": "nextword.cli.groups.ngram:app",
    "list": "nextword.cli.list:app",
}
"""Where each command is, a ``module:member``, in the order of the list of all."""

OLD_NAMES = {"text-memory": "ngram"}
"""Commands by the names that they had."""

OLD_OPTIONS = {"--places": "--positions"}
"""Options by the names that they had."""


class Verb(TyperCommand):
    """A command that is imported when it is called, completed or asked for its help."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name)
        self._place = place

    @property
    def help(self) -> str | None:
        """Its line in the list of all: what its own help begins with, read from its file without importing that."""
        module, _, member = self._place.partition(":")
        (tree,) = (ast.parse(path.read_text(encoding="utf-8")) for path in sources(module))
        for statement in tree.body:
            match statement:
                case ast.FunctionDef(name=name) if name == member:
                    return (ast.get_docstring(statement) or "").partition("\n\n")[0]
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=given)) if name == member:
                    return next(str(ast.literal_eval(one.value)) for one in given if one.arg == "help")
        return None

    @help.setter
    def help(self, text: str | None) -> None: ...

    def loaded(self) -> Any:
        """The command itself, with its options."""
        module, _, member = self._place.partition(":")
        found, holder = getattr(import_module(module), member), typer.Typer()
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=self.name)
        else:
            holder.command(self.name)(found)
        return get_group(holder).commands[str(self.name)]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """What is called, completed or asked for its help is the command itself."""
        return self.loaded().make_context(info_name, [_of_today(arg) for arg in args], parent, **extra)


def _of_today(arg: str) -> str:
    name, is_given, value = arg.partition("=")
    if name in OLD_OPTIONS:
        typer.echo(f"'{name}' is called '{OLD_OPTIONS[name]}' now", err=True)
    return OLD_OPTIONS.get(name, name) + is_given + value


class Commands(TyperGroup):
    """All commands. Where ``--import`` is given after one, the error says that it stands before it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, place in VERBS.items():
            self.add_command(Verb(name, place))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name, or by the one that it had; then a line says its name."""
        if (name := OLD_NAMES.get(cmd_name)) is not None:
            typer.echo(f"'{cmd_name}' is called '{name}' now", err=True)
            cmd_name = name
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was given."""
        try:
            return super().invoke(ctx)
        except Exception as fault:  # typer brings its own copy of click's class, under a private name
            if getattr(fault, "option_name", None) == "--import":
                told: Any = fault
                told.message += ". It stands before the command: nextword --import MODULE COMMAND ..."
            raise


# -- ``--import MODULE``: parts of one's own, for every command.

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
