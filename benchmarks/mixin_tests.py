"""Runs transformers' own model tests on models with heads; writes ``docs/records/transformers-tests.md``.

It takes about twenty minutes on one core. The tests are downloaded once, with the source distribution of the installed
version.

    python benchmarks/mixin_tests.py                             # everything, then write the record and the page
    python benchmarks/mixin_tests.py --backbone gpt2 --head pg   # these alone, shown; record and page stay as they are
    python benchmarks/mixin_tests.py --tests ../transformers     # with the tests of a checkout, which has more
    python benchmarks/mixin_tests.py --page                      # write the page from the record alone

The command fails if a test has another outcome than with the bare model and is not in ``mixins/by_design.toml``, or if
a test in that list passes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixins.backbones import BACKBONES, BARE, HEADS, pairs
from mixins.derived import name_of
from mixins.page import page
from mixins.their_tests import GIVEN, fetch, folder, names_there
from mixins.verdicts import Outcomes, Verdict, as_row, never_asked, read_differences, verdict
from options import at_least

from nextword.results.records import Environment

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "records" / "transformers-tests.md"
RECORD = ROOT / "docs" / "records" / "transformers-tests.json"


def outcomes_of(backbone: str, head: str, sources: Path, seconds: float) -> Outcomes:
    """What became of each test of one class, in a process of its own.

    Raises:
        RuntimeError: The process came to no end, or to a bad one.
    """
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "outcomes.json"
        search = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        settings = os.environ | {GIVEN: str(sources), "PYTHONPATH": search, "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-m", "mixins.one_class", name_of(backbone, head), str(path)]
        try:
            done = subprocess.run(
                command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired as fault:
            raise RuntimeError(f"{backbone} with {head}: no end after {seconds:g} seconds") from fault
        if done.returncode or not path.exists():
            raise RuntimeError(f"{backbone} with {head}: exit code {done.returncode}\n{done.stdout[-3000:]}")
        found: Outcomes = json.loads(path.read_text(encoding="utf-8"))
        return found


def record_of(verdicts: Sequence[Verdict], sources: Path) -> dict[str, Any]:
    """Everything that the page needs."""
    here = Environment.collect()
    versions = {name: getattr(here, name) for name in ("nextword", "transformers", "torch", "commit", "date")}
    return versions | {
        "mixins": names_there(sources),
        "differences": [asdict(one) for one in read_differences()],
        "rows": [as_row(one) for one in verdicts],
    }


def shown(found: Verdict) -> str:
    """A verdict on a few lines, for whoever watches."""
    counts = f"{found.passed} of {found.bare_passed} passed, {len(found.by_design)} differ by design"
    lines = [f"{found.backbone} with {found.head}: {counts}, {len(found.unexpected)} unexpected"]
    lines += [f"    {test}: {how}" for test, how in found.unexpected.items()]
    lines += [f"    passes, but is listed as different by design: {title}" for title in found.stale]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs, shows, writes; exits with 1 where the list of differences is not what was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    heads = sorted({head for named in HEADS.values() for head in named})
    options.add_argument("--backbone", action="append", choices=BACKBONES, help="only this model; may be repeated")
    options.add_argument("--head", action="append", choices=heads, help="only this head; may be repeated")
    options.add_argument("--tests", type=Path, metavar="PATH", help="checkout of transformers with the tests")
    options.add_argument(
        "--seconds", type=at_least(1), default=900, help="time limit per test class, in seconds (%(default)s)"
    )
    options.add_argument(
        "--workers", type=at_least(1), default=1, help="number of test classes run in parallel (%(default)s)"
    )
    options.add_argument("--record", type=Path, default=RECORD)
    options.add_argument("--write", type=Path, default=PAGE, metavar="PAGE", help="the page to write")
    options.add_argument("--page", action="store_true", help="run nothing, write the page from the record")
    options.add_argument("--check", action="store_true", help="fail where the page is older than the record")
    given = options.parse_args(argv)
    if given.page or given.check:
        _write_page(given)
        return
    sources = folder(given.tests)
    if given.tests is None:
        fetch(sources)
    faults, verdicts = _run(given, sources)
    if given.backbone is None and given.head is None:
        given.record.write_text(_as_text(record_of(verdicts, sources)), encoding="utf-8")
        _write_page(given)
    if faults:
        sys.exit(f"{Path('benchmarks/mixins/by_design.toml')}: differences that do not agree with this list: {faults}")


def _run(given: argparse.Namespace, sources: Path) -> tuple[int, list[Verdict]]:
    """Every wanted class; how many differences are not listed or no longer true, and the verdicts."""
    wanted = [
        (backbone, head)
        for backbone, head in pairs()
        if (given.backbone is None or backbone in given.backbone)
        and (given.head is None or head in (BARE, *given.head))
    ]
    listed, bare, verdicts = read_differences(), {}, []
    total = sum(head != BARE for _, head in wanted)
    with ThreadPoolExecutor(given.workers) as pool:
        found = pool.map(lambda one: outcomes_of(*one, sources, given.seconds), wanted)
        for (backbone, head), outcomes in zip(wanted, found, strict=True):
            if head == BARE:
                bare[backbone] = outcomes
                continue
            verdicts.append(verdict(backbone, head, bare[backbone], outcomes, listed))
            print(f"[{len(verdicts)}/{total}] {shown(verdicts[-1])}", flush=True)
    unclear = never_asked(bare, listed) if given.backbone is None else []
    for title in unclear:
        print(f"listed as different by design, but no bare model passes it: {title}")
    return len(unclear) + sum(len(one.unexpected) + len(one.stale) for one in verdicts), verdicts


def _as_text(record: dict[str, Any]) -> str:
    """One line for each model with each head, so that two records can be compared."""
    rows = ",\n".join(json.dumps(row, sort_keys=True) for row in record["rows"])
    head = json.dumps({key: value for key, value in record.items() if key != "rows"}, indent=1)
    return f'{head[:-2]},\n "rows": [\n{rows}\n]}}\n'


def _write_page(given: argparse.Namespace) -> None:
    text = page(json.loads(given.record.read_text(encoding="utf-8")))
    if not given.check:
        given.write.write_text(text, encoding="utf-8")
        print(given.write)
    elif given.write.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{given.write} is older than the record: run python benchmarks/mixin_tests.py --page")


if __name__ == "__main__":
    main()
