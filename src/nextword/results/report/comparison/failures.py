"""What a comparison has no number for, and why."""

from __future__ import annotations

from nextword.results.records import Results


def failures(results: Results) -> list[tuple[str, str]]:
    """Runs that failed, then values that are not finite: which run, and what happened."""
    failed = [
        (f"{run.method}, seed {run.seed}", f"{run.reason} ({run.traceback})" if run.traceback else run.reason)
        for run in results.failures
    ]
    undefined = [
        (f"{run.method}, seed {run.seed}", f"{name} is {fault}")
        for run in results.runs
        for name, fault in run.evaluation.undefined.items()
    ]
    return failed + undefined
