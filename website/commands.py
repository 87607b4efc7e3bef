"""The page of all commands and options, made from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from nextword.cli import app

INTRODUCTION = """# All options

Generated from `nextword --help`. [CLI](cli.md) has an overview of the commands and the exit codes.
"""


def write_page(path: Path) -> None:
    """Writes the page."""
    path.write_text("\n".join([INTRODUCTION, *sections()]), encoding="utf-8")


def sections() -> Iterator[str]:
    """A section for each command, with its help and a table of its arguments and options."""
    for name, command in commands(typer.main.get_command(app), "nextword"):
        yield f"## {name}\n\n{text_of(command.help)}\n"
        rows = [row(parameter) for parameter in command.params if not parameter.hidden and parameter.name != "help"]
        yield "\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows, ""])


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands below a group, by what is typed; those that are imported late are loaded."""
    for verb, found in group.commands.items():
        command = getattr(found, "loaded", lambda found=found: found)()
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {verb}")
        else:
            yield f"{name} {verb}", command


def text_of(help_text: str) -> str:
    """The help of a command in Markdown: its examples become code."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in help_text.replace("\b", "").split("\n\n")]
    return "\n\n".join(f"`{one}`" if one.startswith("nextword ") else one for one in paragraphs if one)


def row(parameter: Any) -> str:
    """A row of the table of options."""
    argument = parameter.param_type_name == "argument"
    names = [parameter.metavar or parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.default
    shown = "" if default is None or default is False or callable(default) else f"`{default}`"
    meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in names)} | {'required' if parameter.required else shown} | {meaning} |"
