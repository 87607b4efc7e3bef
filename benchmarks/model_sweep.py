"""Tests tiny models of all transformers architectures with one head of each family; writes ``docs/records/models.md``.

It takes hours on one core. Each architecture runs in its own process. Its line in the folder of results is written when
it is done, so an interrupted run resumes. ``--only`` runs the named architectures again; the newest line counts.

    python benchmarks/model_sweep.py                          # go on with all, then write the record and the page
    python benchmarks/model_sweep.py --only gpt2 qwen3_next   # these alone, shown; record and page stay as they are
    python benchmarks/model_sweep.py --so-far                 # run nothing, write record and page of what is done
    python benchmarks/model_sweep.py --page                   # write the page from the record alone
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from architectures.cells import HEADS
from architectures.names import KINDS, architectures
from architectures.one_architecture import Row, try_architecture
from architectures.page import counts, page, short
from architectures.processes import Trial, context, row_of
from options import at_least

from nextword.results.records import Environment

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "records" / "models.md"
RECORD = ROOT / "docs" / "records" / "models.json"
GUIDE = ROOT / "docs" / "models.md"
"""Has the counts between its markers."""
OLDEST = ROOT / "docs" / "records" / "models-oldest.json"
"""The record of the oldest transformers that is supported (``make models-oldest``)."""


def newest(path: Path) -> dict[tuple[str, str], Row]:
    """The last line of every architecture in a file of results; a line that a killed run left half written is none."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found[row["kind"], row["name"]] = row
    return found


def rows_of(trial: Trial, wanted: Sequence[tuple[str, str]], seconds: float, workers: int) -> Iterator[Row]:
    """Runs architectures, so many at once; a row whenever one is done, in their order."""
    source = context()
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda one: row_of(trial, *one, seconds, source), wanted)


def record_of(rows: dict[tuple[str, str], Row]) -> dict[str, Any]:
    """Everything that the page needs: versions, and the rows in transformers' own order."""
    here = Environment.collect()
    versions = {name: getattr(here, name) for name in ("nextword", "transformers", "torch", "commit", "date")}
    return versions | {
        "heads": list(HEADS),
        "all": {kind: len(names) for kind, names in KINDS.items()},
        "missing": [f"{name} ({kind})" for kind, name in architectures() if (kind, name) not in rows],
        "rows": [rows[one] for one in architectures() if one in rows],
    }


def write_record(record: dict[str, Any], path: Path) -> None:
    """One line for each architecture, so that two records can be compared."""
    rows = ",\n".join(json.dumps(row, sort_keys=True) for row in record["rows"])
    head = json.dumps({key: value for key, value in record.items() if key != "rows"}, indent=1)
    path.write_text(f'{head[:-2]},\n "rows": [\n{rows}\n]}}\n', encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", metavar="NAME", help="run only these architectures, again")
    options.add_argument("--head", action="append", choices=HEADS, help="only this head; may be repeated")
    options.add_argument("--out", type=Path, default=ROOT / "runs" / "architectures", help="folder of the results")
    options.add_argument(
        "--seconds", type=at_least(1), default=600, help="time limit per architecture, in seconds (%(default)s)"
    )
    options.add_argument(
        "--workers", type=at_least(1), default=1, help="number of architectures tested in parallel (%(default)s)"
    )
    options.add_argument("--record", type=Path, default=RECORD, help="file of the record")
    options.add_argument("--write", type=Path, default=PAGE, metavar="PAGE", help="the page to write")
    options.add_argument("--so-far", action="store_true", help="run nothing, write record and page from the results")
    options.add_argument("--page", action="store_true", help="run nothing, write the page from the record")
    options.add_argument("--check", action="store_true", help="fail where the page is older than the record")
    given = options.parse_args(argv)
    if given.page or given.check:
        _write_page(given)
        return
    here = Environment.collect()
    results = given.out / f"transformers-{here.transformers}-torch-{here.torch}.jsonl"
    given.out.mkdir(parents=True, exist_ok=True)
    done = newest(results)
    unknown = set(given.only or ()) - {name for _, name in architectures()}
    if unknown:
        sys.exit(f"--only: transformers {here.transformers} has no language model {', '.join(sorted(unknown))}")
    named = [one for one in architectures() if given.only is None or one[1] in given.only]
    wanted = [one for one in named if given.only is not None or (one not in done and not given.so_far)]
    print(f"{results}: {len(done)} of {len(architectures())} architectures are done, {len(wanted)} to do", flush=True)
    trial = partial(try_architecture, heads=given.head or list(HEADS))
    for number, row in enumerate(rows_of(trial, wanted, given.seconds, given.workers), 1):
        if given.head is None:
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, sort_keys=True) + "\n")
        print(f"[{number}/{len(wanted)}] {short(row)}", flush=True)
    if given.only is None and given.head is None:
        write_record(record_of(newest(results)), given.record)
        _write_page(given)


def _write_page(given: argparse.Namespace) -> None:
    newest_record, oldest = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else None for path in (RECORD, OLDEST)
    )
    made = {given.write: page(newest_record, oldest)}
    if given.write == PAGE:
        made[GUIDE] = _with_counts(GUIDE.read_text(encoding="utf-8"), newest_record)
    for path, text in made.items():
        if not given.check:
            path.write_text(text, encoding="utf-8")
            print(path)
        elif path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path} is older than the record: run python benchmarks/model_sweep.py --page")


def _with_counts(guide: str, record: dict[str, Any]) -> str:
    """The guide with the counts of a record between its markers."""
    before, _, after = guide.partition("<!-- counts -->\n")
    return (
        f"{before}<!-- counts -->\n\n{counts(record['rows'], record)}\n<!-- end -->{after.partition('<!-- end -->')[2]}"
    )


if __name__ == "__main__":
    main()
