from __future__ import annotations

from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import option_groups
from nextword.settings.config import Settings


class Size(Settings):
    """A group."""

    words: Annotated[list[str] | None, typer.Argument()] = None
    """What is drawn."""
    width: Annotated[int, typer.Option(metavar="CM")] = 3
    """How wide."""


@pytest.fixture
def app():
    @option_groups
    def draw(name: Annotated[str, typer.Argument()], size: Size, deep: Annotated[bool, typer.Option("--deep")] = False):
        """Draws."""
        typer.echo(f"{name} {size!r} {deep}")

    app = typer.Typer()
    app.command()(draw)
    return app


def test_fields_of_a_group_are_options(app):
    done = CliRunner().invoke(app, ["a", "b", "c", "--width", "5", "--deep"])
    assert done.output == "a Size(words=['b', 'c'], width=5) True\n"
    assert CliRunner().invoke(app, ["a"]).output == "a Size(words=None, width=3) False\n"


def test_help_and_faults_are_those_of_options(app):
    assert "CM" in CliRunner().invoke(app, ["--help"]).output
    assert "How wide." in CliRunner().invoke(app, ["--help"]).output
    assert "Draws." in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, []).exit_code == 2
    assert CliRunner().invoke(app, ["a", "--width", "x"]).exit_code == 2


class Oven(Settings):
    """A group that is a settings class."""

    degrees: int = Field(default=180, ge=50)
    """How hot
    it is."""
    name: str | None = None
    """What it is called."""


@pytest.fixture
def kitchen():
    made = typer.Typer()

    @made.command()
    @plain_errors
    @option_groups
    def bake(cake: Annotated[str, typer.Argument()], settings: Oven) -> None:
        typer.echo(f"{cake} {settings!r}")

    return made


def test_fields_of_settings_are_options_and_their_texts_the_help(kitchen):
    done = CliRunner().invoke(kitchen, ["apple", "--degrees", "200"])
    assert done.output == "apple Oven(degrees=200, name=None)\n"
    help_text = " ".join(CliRunner().invoke(kitchen, ["--help"], env={"COLUMNS": "200"}).output.split())
    assert "How hot it is. [default: 180]" in help_text
    assert "--settings" not in help_text


def test_settings_that_do_not_fit_are_told_as_any_others(kitchen):
    done = CliRunner().invoke(kitchen, ["apple", "--degrees", "20"])
    assert done.exit_code == 2
    assert "degrees: must be at least 50 (20 given). How hot it is." in done.output
