"""Rewrites the tables of ``docs/performance.md`` and ``docs/drafting.md`` between their markers, from the newest rows.

The figures of the first are drawn too. Text outside the markers is nobody's but the author's. Nothing is measured here.

    python benchmarks/performance_page.py
    python benchmarks/performance_page.py --check     # fails where a page is older than the rows
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import drafting_tables
import tables
from figures import write
from options import DATA
from table_parts import Targets, targets

DOCS = Path(__file__).parents[1] / "docs"
TARGETS = Path(__file__).parent / "targets.toml"
TABLES = tables.TABLES | drafting_tables.TABLES
_PART = re.compile(r"(<!-- measured: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str, data: Path, wanted: Targets, images: str = "", drawn: Collection[str] = ()) -> str:
    """The page with tables from the newest rows, and above a table the figure of its name.

    Args:
        page: Markdown with markers.
        data: Folder of the tables of rows.
        wanted: Targets by part.
        images: Folder of the figures, as seen from the page.
        drawn: Figures that there are.

    Raises:
        ValueError: Markers of a table that there is none of.
    """

    def filled(found: re.Match[str]) -> str:
        name = found[2]
        if name not in TABLES:
            raise ValueError(f"measured: {name}: no such table; there are {', '.join(TABLES)}")
        figure = f"![{name}: figures as in the table]({images}/{name}.svg)\n\n" if name in drawn else ""
        return f"{found[1]}\n{figure}{TABLES[name](data, wanted)}\n\n{found[3]}"

    return _PART.sub(filled, page)


def main(argv: Sequence[str] | None = None) -> None:
    """Rewrites and draws."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA, help="folder of the tables of rows")
    pages = [DOCS / "performance.md", DOCS / "drafting.md"]
    options.add_argument("--page", type=Path, nargs="+", default=pages, help="the pages")
    options.add_argument("--images", type=Path, default=DOCS / "images" / "performance", help="folder of the figures")
    options.add_argument("--check", action="store_true", help="write nothing, fail where the page would change")
    given = options.parse_args(argv)
    wanted = targets(TARGETS)
    if not given.check:
        write(given.data, wanted, given.images)
    drawn = {path.stem for path in given.images.glob("*.svg")}
    for page in given.page:
        before = page.read_text(encoding="utf-8")
        folder = os.path.relpath(given.images, page.parent).replace(os.sep, "/")
        after = rewritten(before, given.data, wanted, folder, drawn)
        if given.check and before != after:
            raise SystemExit(f"{page} is older than the rows: run python benchmarks/performance_page.py")
        if not given.check:
            page.write_text(after, encoding="utf-8")
            print(f"{page}: {len(_PART.findall(after))} tables")


if __name__ == "__main__":
    main()
