"""``nextword list``: what there is to choose from, read from what is registered and the classes' docstrings."""

from __future__ import annotations

import re
from itertools import compress

import typer

from nextword.cli.catalogue import Catalogue
from nextword.cli.errors import plain_errors

app = typer.Typer(
    help="Show the heads, objectives, conditioners, metrics, tasks or recipes there are.", no_args_is_help=True
)


@app.command()
@plain_errors
def heads() -> None:
    """Heads, and the parts that may follow a + of theirs: what --head takes."""
    found = Catalogue("nextword.heads")
    _show("head", found, "heads")
    _show_parts(found, "heads")


@app.command()
@plain_errors
def objectives() -> None:
    """Objectives, and the parts that may follow a + of theirs: what may stand after the / of --head."""
    found = Catalogue("nextword.objectives")
    _show("objective", found, "objectives")
    _show_parts(found, "objectives")


@app.command()
@plain_errors
def conditioners() -> None:
    """Conditioners, which bring an auxiliary text in: what may stand after a second / of --head."""
    _show("conditioner", Catalogue("nextword.conditioning"), "conditioners")


@app.command()
@plain_errors
def metrics() -> None:
    """Metrics: what --metrics of 'nextword evaluate' takes."""
    _show("metric", Catalogue("nextword.metrics", "nextword.judges"), "metrics")


@app.command()
@plain_errors
def tasks() -> None:
    """Tasks: what --task takes."""
    _show("task", Catalogue("nextword.tasks"), "tasks")


@app.command()
@plain_errors
def recipes() -> None:
    """Built-in recipes: what 'nextword compare' takes."""
    from nextword.comparison.recipe import built_in

    _print("recipe", [(name, line, name, "compare.md") for name, line in built_in().items()], "docs")


def _show(kind: str, found: Catalogue, folder: str) -> None:
    rows = []
    for name, entry in found.registered("registry").items():
        text = found.docstring(entry)
        rows.append((name, first_sentence(text), example(text, name), f"{name}.md"))
    _print(kind, rows, f"docs/{folder}")


def _show_parts(found: Catalogue, folder: str) -> None:
    parts = []
    for field, modifier in found.registered("modifiers").items():
        after = [name for name, entry in found.registered("registry").items() if field in found.settings(entry)]
        for part, meaning, spec, page in found.parts(modifier):
            parts.append((part, f"{meaning} After {', '.join(after)}.", spec, f"{page}.md"))
    _print("part", parts, f"docs/{folder}")


def first_sentence(docstring: str) -> str:
    r"""The first paragraph of a docstring up to its first full stop, without markup.

    >>> first_sentence("Adds ``N`` cache\nentries. More text.")
    'Adds N cache entries.'
    """
    paragraph = " ".join(docstring.split("\n\n")[0].split()).replace("``", "").replace("`", "")
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


def example(docstring: str, name: str) -> str:
    """The first spec with settings in a docstring, or the bare name.

    >>> example('Example: ``parse("blend:3")``.', "blend")
    'blend:3'
    """
    found = re.search(rf'["`]({re.escape(name)}[+:][^"`\s]+)["`]', docstring)
    return found.group(1) if found else name


def _print(kind: str, rows: list[tuple[str, str, str, str]], folder: str) -> None:
    """The rows as a table; names, specs and pages keep whole, so only the text is broken to fit the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings = (kind, "what it is", "example", "page")
    # a column that says nothing, the name once more or everywhere the same page, is left out
    pages = {row[3] for row in rows}
    named = all(row[3] == f"{row[0]}.md" for row in rows)
    told = [True, True, any(row[0] != row[2] for row in rows), len(pages) > 1 and not named]
    where = f"Page: {folder}/{rows[0][3]}" if len(pages) == 1 else f"Pages are in {folder}{', by name' * named}."
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, caption=where, caption_justify="left")
    for heading in compress(headings, told):
        table.add_column(heading, no_wrap=heading != "what it is", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in compress(row, told)))
    Console().print(table)
