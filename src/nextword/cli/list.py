"""``nextword list``: list heads, metrics and so on, as found in the source files of this library and of plug-ins."""

from __future__ import annotations

import re
from itertools import compress
from typing import NamedTuple

import typer

from nextword.cli.parts.catalogue import Catalogue, CatalogueEntry
from nextword.cli.parts.errors import plain_errors

app = typer.Typer(
    help="List the available heads, objectives, conditioners, metrics, tasks or recipes.", no_args_is_help=True
)


@app.command()
@plain_errors
def heads() -> None:
    """List the heads that --head accepts, and the modifiers that can be added to them with +."""
    found = Catalogue("nextword.heads")
    _show("head", found, "heads", "cache:temperature=0.5")
    _show_modifiers(found, "heads")


@app.command()
@plain_errors
def objectives() -> None:
    """List the objectives (HEAD/OBJECTIVE), and the modifiers that can be added to them with +."""
    found = Catalogue("nextword.objectives")
    _show("objective", found, "objectives", "histalign:paper,alpha=0.5")
    _show_modifiers(found, "objectives")


@app.command()
@plain_errors
def conditioners() -> None:
    """List the conditioners (HEAD/OBJECTIVE/CONDITIONER); with one, a model reads an auxiliary text."""
    _show("conditioner", Catalogue("nextword.conditioning"), "conditioners", "bergpt:2,tied=true")


@app.command()
@plain_errors
def metrics() -> None:
    """List the metrics that --metrics of 'nextword evaluate' accepts."""
    _show(
        "metric",
        Catalogue("nextword.evaluation.metrics", "nextword.evaluation.judges"),
        "metrics",
        "rouge:1,2,stemmer=false",
        page="index",
    )


@app.command()
@plain_errors
def tasks() -> None:
    """List the tasks that --task accepts."""
    _show("task", Catalogue("nextword.experiments.tasks"), "tasks")


@app.command()
@plain_errors
def recipes() -> None:
    """List the built-in recipes that 'nextword compare' accepts."""
    from nextword.experiments.comparison.comparison_settings import built_in

    _print("recipe", [ListedRow(name, line, name, "compare.md") for name, line in built_in().items()], "docs")


class ListedRow(NamedTuple):
    """A row that ``nextword list`` prints: name, meaning, example spec, and documentation page (None for plug-ins)."""

    name: str
    meaning: str
    example: str
    page: str | None


def _show(kind: str, found: Catalogue, folder: str, by_name: str = "", page: str = "") -> None:
    """Print a registry. ``by_name`` is an example spec with a named setting, ``page`` the page of all entries."""
    rows = []
    for name, entry in found.registered("registry").items():
        text = entry.docstring
        rows.append(_row(entry, name, first_sentence(text), example(text, name), page or name))
    _print(kind, rows, f"docs/{folder}", f" Any setting can be given by name, as in {by_name}." if by_name else "")


def _show_modifiers(found: Catalogue, folder: str) -> None:
    rows = []
    settings = {name: found.settings(entry) for name, entry in found.registered("registry").items()}
    for modifier in found.registered("modifiers").values():
        after = ", ".join(name for name, fields in settings.items() if modifier.field in fields)
        for name, meaning, spec, page in modifier.modifier_entries:
            rows.append(_row(modifier, name, f"{meaning} After {after}.", spec, page))
    _print("modifier", rows, f"docs/{folder}")


def _row(entry: CatalogueEntry, name: str, meaning: str, spec: str, page: str) -> ListedRow:
    if entry.origin is None:
        return ListedRow(name, meaning, spec, f"{page}.md")
    return ListedRow(name, f"{meaning} From {entry.origin}.".strip(), spec, None)


def first_sentence(docstring: str) -> str:
    r"""The first paragraph of a docstring up to its first full stop, without markup.

    >>> first_sentence("Adds ``N`` cache\nentries. More text.")
    'Adds N cache entries.'
    """
    paragraph = " ".join(docstring.split("\n\n")[0].split()).replace("``", "").replace("`", "")
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


def example(docstring: str, name: str) -> str:
    """The first spec of ``name`` with settings in ``docstring``, or ``name`` if there is none.

    >>> example('Example: ``parse("blend:3")``.', "blend")
    'blend:3'
    """
    found = re.search(rf'["`]({re.escape(name)}[+:][^"`\s]+)["`]', docstring)
    return found.group(1) if found else name


def _print(kind: str, rows: list[ListedRow], folder: str, hint: str = "") -> None:
    # names, specs and pages are not broken; only the meaning is broken to fit the terminal
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings = (kind, "what it is", "example", "page")
    # columns that would repeat the name, or show the same page in every row, are left out
    pages = sorted({row.page for row in rows if row.page is not None})
    named = all(row.page in (f"{row.name}.md", None) for row in rows)
    told = [True, True, any(row.name != row.example for row in rows), len(pages) > 1 and not named]
    where = f"Page: {folder}/{pages[0]}" if len(pages) == 1 else f"Pages are in {folder}{', by name' * named}."
    where += hint
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, caption=where, caption_justify="left")
    for heading in compress(headings, told):
        table.add_column(heading, no_wrap=heading != "what it is", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell or "") for cell in compress(row, told)))
    Console().print(table)
