"""A run as a task of Ray: what its process is sent, what it does, and how it tells how far it is."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nextword import plugins
from nextword.comparison.common_start import CommonStart
from nextword.comparison.comparison_settings import CompareConfig, build_task
from nextword.comparison.engines.attempt import attempted
from nextword.comparison.engines.engine import Outcome
from nextword.comparison.folder import ComparisonFolder
from nextword.comparison.one_run import Run, Setting
from nextword.comparison.progress import ComparisonWatcher, SilentWatcher, StageReporter
from nextword.records import disk_full_explained
from nextword.training.settings import TrainingSettings

_MESSAGE_EVERY = 1.0
"""Seconds between two messages about how far a stage is."""


class Mailbox:
    """An actor of Ray that keeps what the tasks tell until it is taken."""

    def __init__(self) -> None:
        self._messages: list[tuple[Any, ...]] = []

    def post(self, *message: Any) -> None:
        """Adds the name of a watcher's method with its arguments."""
        self._messages.append(message)

    def take(self) -> list[tuple[Any, ...]]:
        """All that was posted since it was last asked."""
        taken, self._messages = self._messages, []
        return taken


def tell(progress: ComparisonWatcher, messages: list[tuple[Any, ...]]) -> None:
    """Tells a watcher what was posted."""
    for name, *given in messages:
        getattr(progress, name)(*given)


class PostingWatcher(SilentWatcher):
    """Posts the stages of a run; what became of the run is its result.

    Args:
        mailbox: Handle of the actor.
    """

    def __init__(self, mailbox: Any) -> None:
        self._mailbox = mailbox
        self._last = 0.0

    def began(self, name: str, stage: str) -> None:
        """Posts it."""
        self._mailbox.post.remote("began", name, stage)

    def advanced(self, name: str, fraction: float) -> None:
        """Posts it, not more often than somebody reads it."""
        now = time.monotonic()
        if now - self._last >= _MESSAGE_EVERY:
            self._last = now
            self._mailbox.post.remote("advanced", name, fraction)

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """Posts it, and waits until it has arrived, so that it is told before the run's end."""
        import ray

        ray.get(self._mailbox.post.remote("ended", name, stage, seconds))


@dataclass(frozen=True)
class Work:
    """What all tasks of a comparison are sent.

    Attributes:
        config: The comparison.
        settings: Of the training.
        start: The common start, which the main process has made.
        folder: Of the comparison, as the main process calls it.
        directory: Where the main process is; paths in the config begin there.
        threads: CPU threads of each run.
        modules: What ``--import`` names.
    """

    config: CompareConfig
    settings: TrainingSettings
    start: CommonStart
    folder: Path
    directory: Path
    threads: int
    modules: tuple[str, ...]


def carried_out(work: Work, run: Run, mailbox: Any) -> Outcome | Exception:
    """Carries out one run in a process of Ray; what would meet every run is returned as an error.

    The error is a value, because Ray would wrap one that is raised into the text of its traceback.
    """
    _settle_in(work)
    folder = ComparisonFolder(work.folder)
    try:
        _expect_shared(folder)
        stages = StageReporter(PostingWatcher(mailbox))
        with disk_full_explained(folder.path):
            setting = Setting(work.config, build_task(work.config), folder, work.start, work.settings, stages)
            return attempted(run, setting)
    except (ValueError, OSError) as problem:
        return problem


def _settle_in(work: Work) -> None:
    """Makes this process like the main one."""
    import datasets
    from transformers.utils import logging

    os.chdir(work.directory)
    torch.set_num_threads(work.threads)
    for module in work.modules:
        plugins.request(module)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()


def _expect_shared(folder: ComparisonFolder) -> None:
    if not (folder.start / "start.json").is_file():
        raise ValueError(
            f"{folder.path}: must lie on a disk that all machines of the Ray cluster see (it is not on "
            f"{socket.gethostname()}); choose another folder (--out)"
        )
