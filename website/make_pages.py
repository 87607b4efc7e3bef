"""Gathers what the site is built from in build/pages: docs/, the pages that only the site has, notebooks with outputs.

Run by ``make docs``. With a number, one notebook alone is run: continuous integration gives the day of the year.
Pages of docs/ are read in the repository too, so they link to files outside docs/. Where the site has a page for such a
file, the link leads there; otherwise it becomes plain text.
"""

from __future__ import annotations

import shutil
import sys

import commands
from links import ROOT, ROOT_PAGES, relinked
from notebooks import write_page
from themes import switched

TARGET = ROOT / "build" / "pages"


def main(number: int | None) -> None:
    """Makes build/pages anew; with a number one notebook is run, and the others' pages are without outputs."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "docs", TARGET, ignore=shutil.ignore_patterns("*.py", "*.ipynb", "__pycache__"))
    for page in (ROOT / "docs").rglob("*.md"):
        text = switched(relinked(page.read_text(encoding="utf-8"), page))
        (TARGET / page.relative_to(ROOT / "docs")).write_text(text, encoding="utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = relinked((ROOT / name).read_text(encoding="utf-8"), ROOT / name)
        (TARGET / ROOT_PAGES[name]).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "website" / "pages", TARGET, dirs_exist_ok=True)
    commands.write_page(TARGET / "cli-options.md")
    notebooks = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
    for place, notebook in enumerate(notebooks):
        runs = number is None or place == number % len(notebooks)
        write_page(notebook, TARGET / "notebooks", ROOT / "build" / "notebooks" if runs else None)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
