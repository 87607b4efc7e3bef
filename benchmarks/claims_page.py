"""Rewrites ``docs/claims.md`` and ``docs/results/papers/`` from the tables that were reproduced.

The records of reproduced tables lie in ``docs/results/papers/``, one JSON file each; nothing is measured here. Rows,
notes and claims of a record are rewritten too where its table's definition has changed; its numbers stay.

    python benchmarks/claims_page.py --add runs/reproduce    # take the tables of this folder in, then rewrite
    python benchmarks/claims_page.py --check                 # fails where a page is older than the records
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nextword.experiments.reproduction.paper import Claim, find_table, load_paper, names
from nextword.experiments.reproduction.reproduce_tables import all_tables
from nextword.experiments.reproduction.table_record import renewed, table_record
from nextword.results.records.reproduced_table import ReproducedTable
from nextword.results.report import claims_markdown, tables_markdown
from nextword.results.report.reproduction_page import numbers

DOCS = Path(__file__).parents[1] / "docs"
_PART = re.compile(r"(<!-- claims -->\n).*?(<!-- end -->)", re.DOTALL)


HEAD = """# {title}: its tables, run here

Made by `python benchmarks/claims_page.py` from the records beside this page; `nextword reproduce {name} --data DATA`
runs them again. Below each table stands what the paper says of it, and what became of that; the main claims of all
papers are [on one page](../../claims.md).

"""


def records_in(folder: Path) -> list[ReproducedTable]:
    """The records of a folder, in the order of the papers."""
    return _ordered([ReproducedTable.load(path) for path in folder.rglob("*.json")])


def _ordered(tables: Sequence[ReproducedTable]) -> list[ReproducedTable]:
    order = all_tables()
    return sorted(tables, key=lambda table: (order.index(table.name), table.scale))


def add(folder: Path, records: Path) -> list[str]:
    """Takes the tables in that were filled in a folder: their names. Paths and links to pages, which stay there, go."""
    added = []
    for table in records_in(folder / "tables"):
        if all(cell.value is None for row in table.rows for cell in row.cells) and not table.experiments:
            continue  # drawings and what people said: nothing is ours
        command = f"nextword reproduce {table.name} --scale {table.scale} --data DATA"
        ran = [one.model_copy(update={"report": None, "command": command}) for one in table.experiments]
        table.model_copy(update={"experiments": ran, "shown_in": None, "command": command}).save(
            records / table.scale / f"{table.name}.json"
        )
        added.append(table.name)
    return added


def claims(tables: Sequence[ReproducedTable]) -> str:
    """What became of the claims, and which main claims no run speaks of yet."""
    waiting, untestable = [], []
    for name, claim in _headlines_without(tables):
        line = f"- `{name}`: {' '.join(claim.text.split())}"
        why = claim.not_testable.get("small")
        if why is None:
            waiting.append(line)
        else:
            untestable.append(f"{line} *{why}.*")
    lists = {"Not run yet": waiting, "Not testable at scale small": untestable}
    sections = [f"## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in lists.items() if lines]
    return "\n".join([claims_markdown(tables), *sections])


def _headlines_without(tables: Sequence[ReproducedTable]) -> Iterator[tuple[str, Claim]]:
    """Main claims of tables that are not among these, with the table's name."""
    ran = {table.name for table in tables}
    for name in all_tables():
        if name not in ran:
            yield from ((name, claim) for claim in find_table(name).claims if claim.headline)


def renew(records: Path) -> None:
    """Brings every record under its table's present definition."""
    for path, table in _aged(records):
        table.save(path)


def _aged(records: Path) -> list[tuple[Path, ReproducedTable]]:
    """Records whose definition has changed since, as they should be."""
    loaded = [(path, ReproducedTable.load(path)) for path in records.rglob("*.json")]
    return [(path, new) for path, old in loaded if (new := renewed(old)) != old]


def pages(docs: Path) -> dict[Path, str]:
    """Every page as it should be."""
    run = records_in(docs / "results" / "papers")
    made = {table.name for table in run}
    others = [_not_run(name) for name in all_tables() if name not in made]
    tables = _ordered([*run, *(table for table in others if numbers(table).has_ours)])
    page = docs / "claims.md"
    before = page.read_text(encoding="utf-8")
    found = {page: _PART.sub(lambda part: f"{part[1]}\n{claims(tables)}\n{part[2]}", before)}
    for name in names():
        own = _ordered([table for table in [*run, *others] if table.name.startswith(f"{name}/")])
        if made & {table.name for table in own}:
            text = tables_markdown(own)
            head = HEAD.format(title=load_paper(name).title, name=name)
            found[docs / "results" / "papers" / f"{name}.md"] = head + text
    return found


def _not_run(name: str) -> ReproducedTable:
    """A table that was not run: numbers that need no run, and claims that say why they are not tested."""
    return table_record(name, find_table(name), {}, "small", f"nextword reproduce {name} --data DATA")


def main(argv: Sequence[str] | None = None) -> None:
    """Adds, then rewrites or checks."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--docs", type=Path, default=DOCS)
    options.add_argument("--add", type=Path, help="folder of 'nextword reproduce' whose tables are taken in")
    options.add_argument("--check", action="store_true", help="write nothing, fail where a page would change")
    given = options.parse_args(argv)
    if given.add is not None:
        print(f"taken in: {', '.join(add(given.add, given.docs / 'results' / 'papers')) or 'none'}")
    records = given.docs / "results" / "papers"
    if not given.check:
        renew(records)
    elif aged := _aged(records):
        raise SystemExit(f"{aged[0][0]} is older than its table: run python benchmarks/claims_page.py")
    for path, text in pages(given.docs).items():
        if given.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                raise SystemExit(f"{path} is older than the records: run python benchmarks/claims_page.py")
        else:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
