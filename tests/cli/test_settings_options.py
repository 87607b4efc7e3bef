from __future__ import annotations

from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from nextword.cli.errors import plain_errors
from nextword.cli.settings_options import options_of
from nextword.config import Settings


class Oven(Settings):
    """Settings of an example."""

    degrees: int = Field(default=180, ge=50)
    """How hot
    it is."""
    name: str | None = None
    """What it is called."""


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @plain_errors
    @options_of(Oven)
    def bake(cake: Annotated[str, typer.Argument()], *, settings: Oven) -> None:
        typer.echo(f"{cake} {settings!r}")

    return made


def test_fields_are_options(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["apple", "--degrees", "200"])
    assert done.output == "apple Oven(degrees=200, name=None)\n"
    help_text = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    assert "How hot it is. [default: 180]" in help_text
    assert "--settings" not in help_text


def test_what_does_not_fit_is_said_as_of_any_setting(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["apple", "--degrees", "20"])
    assert done.exit_code == 2
    assert "degrees: must be at least 50 (20 given). How hot it is." in done.output
