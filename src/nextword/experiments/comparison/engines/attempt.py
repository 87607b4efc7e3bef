"""One run that may fail."""

from __future__ import annotations

from nextword.experiments.comparison.engines.engine import Outcome
from nextword.experiments.comparison.failure import failure
from nextword.experiments.comparison.one_run import Run, Setting, carry_out
from nextword.experiments.comparison.search.grid_search import searched, settled


def attempted(run: Run, setting: Setting) -> Outcome:
    """Carries out a run after the search of its method; the record of why it failed, where it did.

    Raises:
        OSError: What would meet every other run too.
    """
    try:
        return carry_out(searched(run, setting), setting)
    except Exception as problem:
        return failed(run, setting, problem)


def failed(run: Run, setting: Setting, problem: Exception) -> Outcome:
    """The record of a run that ended with ``problem``, with what its search has chosen.

    Raises:
        OSError: As ``attempted``.
    """
    return failure(Run(settled(run.method, setting.folder), run.seed), setting, problem)
