"""Counts the words in docs/ that people wrote: ``make words``.

A word has a letter or a digit. Generated pages and parts are counted apart: pages with ``<!-- generated`` near the top,
and what is between ``<!-- NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = re.compile(r"<!--\s*generated")
PART = re.compile(r"<!-- (?!end -->)[^>]*-->\n(?:(?!<!--).)*?<!-- end -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
WORD = re.compile(r"\S*\w\S*")


def words(text: str) -> tuple[int, int]:
    r"""Words that people wrote, and generated ones.

    >>> words("One two | three.\n<!-- table -->\nfour\n<!-- end -->\nfive")
    (4, 1)
    """
    bare = COMMENT.sub("", text)
    written = "" if MARK.search(text[:500]) else COMMENT.sub("", PART.sub("", text))
    count = len(WORD.findall(written))
    return count, len(WORD.findall(bare)) - count


def main(folder: Path = DOCS) -> None:
    """Prints a line for each page, the longest first, and the sum."""
    pages = {path: words(path.read_text(encoding="utf-8")) for path in folder.rglob("*.md")}
    for path, (written, generated) in sorted(pages.items(), key=lambda one: (-one[1][0], one[0])):
        print(f"{written:7,} {generated:7,}  {path.relative_to(folder).as_posix()}")
    sums = [sum(column) for column in zip(*pages.values(), strict=True)]
    print(f"{sums[0]:7,} {sums[1]:7,}  written, generated")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
