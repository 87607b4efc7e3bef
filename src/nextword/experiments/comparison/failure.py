"""What becomes of a run that fails: a record that says why, while the others go on."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator

import torch

from nextword.experiments.comparison.one_run import Run, Setting
from nextword.experiments.training.loss_curve import DivergedError
from nextword.results.records import FailedRun, full_disk, write_atomically

LONGEST_REASON = 300
"""Characters of an error that a record shows; the file with the traceback has all of it."""


def failure(run: Run, setting: Setting, problem: Exception) -> FailedRun:
    """The record of a run that ended with ``problem``.

    What diverged is deleted, so that the next attempt does not go on from weights that are as good as lost. Any other
    training keeps its checkpoints.

    Raises:
        OSError: ``problem`` is one, or a full disk: it would meet every other run too.
    """
    if isinstance(problem, OSError) or full_disk(problem) is not None:
        raise problem
    method, place = run.method, setting.folder
    if isinstance(problem, DivergedError):
        for stage in place.stages(method, run.seed):
            if place.trained_outcome(stage) is None:
                place.drop_model(stage)
    file = None if isinstance(problem, ValueError) else place.run(method, run.seed) / "failure.txt"
    if file is not None:
        write_atomically(file, "".join(traceback.format_exception(problem)))
    _release(problem)
    return FailedRun(
        **run.recorded(),
        reason=_reason(problem),
        traceback=place.relative(file) if file is not None else None,
    )


def _reason(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    text = text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
    return text if isinstance(problem, ValueError) and text else f"{type(problem).__name__}: {text}".removesuffix(": ")


def _release(problem: BaseException) -> None:
    """Frees what the run held: its model is alive as long as the frames of the traceback are."""
    for one in _chain(problem):
        traceback.clear_frames(one.__traceback__)
    gc.collect()
    torch.cuda.empty_cache()


def _chain(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or problem.__context__
