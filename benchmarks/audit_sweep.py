"""Runs ``nw.check`` on a tiny model of every language model of transformers; writes ``docs/records/audits.md``.

No fault is planted, so a reported fault is a defect of the model or a false alarm. ``architectures/defects.toml`` gives
the reason for each defect; a fault without a reason there counts as a false alarm.

    python benchmarks/audit_sweep.py                 # go on with all, then write the record and the page
    python benchmarks/audit_sweep.py --only gpt2 t5  # these alone, shown; record and page stay as they are
    python benchmarks/audit_sweep.py --so-far        # run nothing, write record and page of what is done
    python benchmarks/audit_sweep.py --page          # write the page from the record alone
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from architectures.audit_page import audit_page, shown
from architectures.audited import audit_architecture
from architectures.names import architectures
from architectures.one_architecture import Row
from model_sweep import newest, record_of, rows_of, write_record
from options import at_least

from nextword.results.records import Environment

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "records" / "audits.md"
RECORD = ROOT / "docs" / "records" / "audits.json"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="+", metavar="NAME", help="run only these architectures, again")
    options.add_argument("--out", type=Path, default=ROOT / "runs" / "audits", help="folder of the results")
    options.add_argument(
        "--seconds", type=at_least(1), default=300, help="time limit per architecture, in seconds (%(default)s)"
    )
    options.add_argument(
        "--workers", type=at_least(1), default=1, help="number of architectures audited in parallel (%(default)s)"
    )
    options.add_argument("--so-far", action="store_true", help="run nothing, write record and page from the results")
    options.add_argument("--page", action="store_true", help="run nothing, write the page from the record")
    given = options.parse_args(argv)
    if not given.page:
        here = Environment.collect()
        results = given.out / f"transformers-{here.transformers}-torch-{here.torch}.jsonl"
        given.out.mkdir(parents=True, exist_ok=True)
        done = newest(results)
        named = [one for one in architectures() if given.only is None or one[1] in given.only]
        wanted = [] if given.so_far else [one for one in named if given.only is not None or one not in done]
        print(
            f"{results}: {len(done)} of {len(architectures())} architectures are done, {len(wanted)} to do", flush=True
        )
        for number, row in enumerate(rows_of(audit_architecture, wanted, given.seconds, given.workers), 1):
            _append(row, results)
            print(f"[{number}/{len(wanted)}] {shown(row)}", flush=True)
        if given.only is not None:
            return
        write_record(record_of(newest(results)), RECORD)
    PAGE.write_text(audit_page(json.loads(RECORD.read_text(encoding="utf-8"))), encoding="utf-8")
    print(PAGE)


def _append(row: Row, results: Path) -> None:
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
