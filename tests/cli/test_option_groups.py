from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from nextword.cli.option_groups import option_groups


@dataclass(frozen=True)
class Size:
    """A group."""

    words: Annotated[list[str] | None, typer.Argument()] = None
    width: Annotated[int, typer.Option(help="How wide.")] = 3


@pytest.fixture
def app():
    @option_groups
    def draw(name: Annotated[str, typer.Argument()], size: Size, deep: Annotated[bool, typer.Option("--deep")] = False):
        """Draws."""
        typer.echo(f"{name} {size} {deep}")

    app = typer.Typer()
    app.command()(draw)
    return app


def test_fields_of_a_group_are_options(app):
    done = CliRunner().invoke(app, ["a", "b", "c", "--width", "5", "--deep"])
    assert done.output == "a Size(words=['b', 'c'], width=5) True\n"
    assert CliRunner().invoke(app, ["a"]).output == "a Size(words=None, width=3) False\n"


def test_help_and_faults_are_those_of_options(app):
    assert "How wide." in CliRunner().invoke(app, ["--help"]).output
    assert "Draws." in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, []).exit_code == 2
    assert CliRunner().invoke(app, ["a", "--width", "x"]).exit_code == 2
