"""One test class, run by pytest in a process of its own: what became of each test.

python -m mixins.one_class "gpt2 cache" outcomes.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

MODULE = Path(__file__).with_name("every_test_class.py")
PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"
_RANK = (PASSED, SKIPPED, FAILED)


class Recorder:
    """Test to its outcome and reason: the worst of its parts, be they set-up, subtests or the test itself."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest for each part."""
        name = report.nodeid.rpartition("::")[2]
        known = self.outcomes.get(name, [PASSED, ""])
        if _RANK.index(report.outcome) > _RANK.index(known[0]):
            known = [report.outcome, _reason(report)]
        self.outcomes[name] = known


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else str(report.longrepr[-1] if report.skipped else report.longrepr)
    return (said.strip().splitlines() or [""])[0]


def main() -> None:
    """Runs the class named first, and writes the file named second when pytest came to its end."""
    chosen, path = sys.argv[1], Path(sys.argv[2])
    recorder = Recorder()
    # neither the settings nor the fixtures of our own tests: they are not theirs
    ours = ["--noconftest", "-c", str(MODULE.with_name("pytest.ini")), "--rootdir", str(MODULE.parent)]
    code = pytest.main([f"{MODULE}::{chosen}", "-q", "--tb=line", *ours], plugins=[recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"{chosen}: pytest ended with {code!r}")
    path.write_text(json.dumps(recorder.outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
