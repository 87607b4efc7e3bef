"""Rewrites the tables of ``docs/performance.md`` between their markers, and draws its figures, from the newest rows.

Text outside the markers is nobody's but the author's. Nothing is measured here.

    python benchmarks/performance_page.py
    python benchmarks/performance_page.py --check     # fails where the page is older than the rows
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from figures import write
from options import DATA
from table_parts import Goals, goals
from tables import TABLES

DOCS = Path(__file__).parents[1] / "docs"
GOALS = Path(__file__).parent / "goals.toml"
_PART = re.compile(r"(<!-- measured: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rewritten(page: str, data: Path, wanted: Goals, images: str = "", drawn: Collection[str] = ()) -> str:
    """The page with tables from the newest rows, and above a table the figure of its name.

    Args:
        page: Markdown with markers.
        data: Folder of the tables of rows.
        wanted: Goals by part.
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
    options.add_argument("--page", type=Path, default=DOCS / "performance.md")
    options.add_argument("--images", type=Path, default=DOCS / "images" / "performance", help="folder of the figures")
    options.add_argument("--check", action="store_true", help="write nothing, fail where the page would change")
    given = options.parse_args(argv)
    wanted = goals(GOALS)
    before = given.page.read_text(encoding="utf-8")
    if not given.check:
        write(given.data, wanted, given.images)
    drawn = {path.stem for path in given.images.glob("*.svg")}
    folder = os.path.relpath(given.images, given.page.parent).replace(os.sep, "/")
    after = rewritten(before, given.data, wanted, folder, drawn)
    if given.check:
        if before != after:
            raise SystemExit(f"{given.page} is older than the rows: run python benchmarks/performance_page.py")
        return
    given.page.write_text(after, encoding="utf-8")
    print(f"{given.page}: {len(_PART.findall(after))} tables, {len(drawn)} figures")


if __name__ == "__main__":
    main()
