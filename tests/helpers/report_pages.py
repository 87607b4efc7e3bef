"""Pages of reports, drawn once, and what a reader finds on them."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

from rich.console import Console

from nextword.results.records import Results
from nextword.results.report import results_table
from nextword.results.report.comparison import page
from nextword.results.report.comparison.page import render

_DRAWN: dict[tuple[str, str], str] = {}


def drawn(results: Results) -> str:
    """The page of these results; the same results are drawn once, for that takes a second."""
    key = results.model_dump_json(), page._figure.__name__  # with figures or without
    if key not in _DRAWN:
        _DRAWN[key] = render(results)
    return _DRAWN[key]


VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(HTMLParser):
    """Text and attributes of a page; fails where tags are not nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids)), "ids clash"
    links = [value for tag, name, value in reader.attributes if tag == "a" and name == "href"]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids), "a link leads nowhere"
    return reader


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


class Cells(HTMLParser):
    """The cells of the tables of a class, row by row."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.tables: list[list[list[str]]] = []
        self.inside = self.small = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table" and self.name in (dict(attrs).get("class") or "").split():
            self.inside = True
            self.tables.append([])
        elif self.inside and tag == "tr":
            self.tables[-1].append([])
        elif self.inside and tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "small":
            self.small = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "table"
        self.small = self.small and tag != "small"

    def handle_data(self, data: str) -> None:
        if self.inside and not self.small and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data


def tables(page: str, name: str) -> list[list[list[str]]]:
    reader = Cells(name)
    reader.feed(page)
    return [[[cell.strip() for cell in row] for row in table] for table in reader.tables]


def shown(results: Results, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(results_table(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
