"""``nextword list``: what there is to choose from, read from the registries and the classes' own docstrings."""

from __future__ import annotations

import inspect
import re
from itertools import compress
from typing import TYPE_CHECKING, Any

import typer

from nextword.cli.errors import plain_errors

if TYPE_CHECKING:
    from nextword.registry import Registry

app = typer.Typer(
    help="Show the heads, objectives, conditioners, metrics, tasks or recipes there are.", no_args_is_help=True
)


@app.command()
@plain_errors
def heads() -> None:
    """Heads, and the parts that may follow a + of theirs: what --head takes."""
    from nextword.heads import modifiers, registry

    _show("head", registry, "heads")
    _show_parts(modifiers, registry, "heads")


@app.command()
@plain_errors
def objectives() -> None:
    """Objectives, and the parts that may follow a + of theirs: what may stand after the / of --head."""
    from nextword.objectives import modifiers, registry

    _show("objective", registry, "objectives")
    _show_parts(modifiers, registry, "objectives")


@app.command()
@plain_errors
def conditioners() -> None:
    """Conditioners, which bring an auxiliary text in: what may stand after a second / of --head."""
    from nextword.conditioning import registry

    _show("conditioner", registry, "conditioners")


@app.command()
@plain_errors
def metrics() -> None:
    """Metrics: what --metrics of 'nextword evaluate' takes."""
    import nextword.judges  # noqa: F401  (registers its metrics)
    from nextword.metrics import registry

    _show("metric", registry, "metrics")


@app.command()
@plain_errors
def tasks() -> None:
    """Tasks: what --task takes."""
    from nextword.tasks import registry

    _show("task", registry, "tasks")


@app.command()
@plain_errors
def recipes() -> None:
    """Built-in recipes: what 'nextword compare' takes."""
    from nextword.training.recipe import built_in

    _print("recipe", [(name, line, name, "compare.md") for name, line in built_in().items()], "docs")


def _show(kind: str, registry: Registry[Any], folder: str) -> None:
    rows = []
    for name in registry.names():
        entry = registry.get(name)
        text = inspect.getdoc(entry) or ""
        rows.append((name, first_sentence(text), example(entry, name), f"{page(entry, name)}.md"))
    _print(kind, rows, f"docs/{folder}")


def _show_parts(modifiers: Registry[Any], registry: Registry[Any], folder: str) -> None:
    parts = []
    for field in modifiers.names():
        after = [name for name in registry.names() if field in registry.get(name).Config.model_fields]
        for part in modifiers.get(field).parts:
            meaning = f"{part.meaning} After {', '.join(after)}."
            parts.append((part.name, meaning, part.example, f"{part.page}.md"))
    _print("part", parts, f"docs/{folder}")


def first_sentence(docstring: str) -> str:
    r"""The first paragraph of a docstring up to its first full stop, without markup.

    >>> first_sentence("Adds ``N`` cache\nentries. More text.")
    'Adds N cache entries.'
    """
    paragraph = " ".join(docstring.split("\n\n")[0].split()).replace("``", "").replace("`", "")
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


def example(entry: Any, name: str) -> str:
    """The first spec with settings in the class's docstring, or the bare name.

    >>> class Blend:
    ...     '''Example: ``parse("blend:3")``.'''
    >>> example(Blend, "blend")
    'blend:3'
    """
    found = re.search(rf'["`]({re.escape(name)}[+:][^"`\s]+)["`]', inspect.getdoc(entry) or "")
    return found.group(1) if found else name


def page(entry: Any, name: str) -> str:
    """Name of its page of the documentation: the class's own ``page`` where it has one, or the registered name."""
    given = getattr(entry, "page", None)
    return given if isinstance(given, str) else name


def _print(kind: str, rows: list[tuple[str, str, str, str]], folder: str) -> None:
    """The rows as a table; names, specs and pages keep whole, so only the text is broken to fit the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings = (kind, "what it is", "example", "page")
    # a column that says nothing, the name once more or everywhere the same page, is left out
    told = [True, True, any(row[0] != row[2] for row in rows), len({row[3] for row in rows}) > 1]
    where = f"Pages are in {folder}." if told[3] else f"Page: {folder}/{rows[0][3]}"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, caption=where, caption_justify="left")
    for heading in compress(headings, told):
        table.add_column(heading, no_wrap=heading != "what it is", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in compress(row, told)))
    Console().print(table)
