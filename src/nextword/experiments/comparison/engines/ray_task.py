"""A run as a task of Ray: what its process is sent, what it does, and how it tells how far it is."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nextword.experiments.comparison.common_start import CommonStart
from nextword.experiments.comparison.comparison_settings import CompareConfig, build_task
from nextword.experiments.comparison.engines.attempt import attempted
from nextword.experiments.comparison.engines.engine import Outcome
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.experiments.comparison.progress import ComparisonWatcher, SilentWatcher, StageReporter
from nextword.experiments.training.settings import TrainingSettings
from nextword.results.records import disk_full_explained, locked
from nextword.settings import plugins
from nextword.settings.setting_names import named

_MESSAGE_EVERY = 1.0
"""Seconds between two messages about how far a stage is."""

_PREDECESSOR = 60.0
"""Seconds to wait for a task of a comparison whose main process was killed: Ray ends such tasks some seconds later."""


@dataclass(frozen=True)
class Message:
    """What a watcher is told.

    Attributes:
        run: Name of the run.
        event: Method of the watcher.
        given: Its arguments.
    """

    run: str
    event: str
    given: tuple[Any, ...]


class Mailbox:
    """An actor of Ray that keeps what the tasks tell until it is taken."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def post(self, message: Message) -> None:
        """Adds a message."""
        self._messages.append(message)

    def take(self) -> list[Message]:
        """All that was posted since it was last asked."""
        taken, self._messages = self._messages, []
        return taken


class Deliveries:
    """Takes messages out of a mailbox and tells them to a watcher.

    Args:
        mailbox: Handle of the actor.
        progress: The watcher.
    """

    def __init__(self, mailbox: Any, progress: ComparisonWatcher) -> None:
        self._mailbox, self._progress = mailbox, progress
        self._delivered = Counter[str]()

    def deliver(self) -> None:
        """What has arrived."""
        import ray

        for message in ray.get(self._mailbox.take.remote()):
            getattr(self._progress, message.event)(*message.given)
            self._delivered[message.run] += 1

    def deliver_all(self, run: Run, posted: int) -> None:
        """The rest of what a run has posted: a task may be done before its messages have arrived."""
        while self._delivered[run.name] < posted:
            self.deliver()


class PostingWatcher(SilentWatcher):
    """Posts the stages of a run; what became of the run is its result.

    It never waits: Ray would lend the cores of a task that waits to the next one.

    Args:
        mailbox: Handle of the actor.
        run: Whose stages they are.
    """

    def __init__(self, mailbox: Any, run: Run) -> None:
        self._mailbox, self._run = mailbox, run.name
        self._last = 0.0
        self.posted = 0

    def began(self, name: str, stage: str) -> None:
        """Posts it."""
        self._post("began", name, stage)

    def advanced(self, name: str, fraction: float) -> None:
        """Posts it, not more often than somebody reads it."""
        now = time.monotonic()
        if now - self._last >= _MESSAGE_EVERY:
            self._last = now
            self._post("advanced", name, fraction)

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """Posts it."""
        self._post("ended", name, stage, seconds)

    def _post(self, event: str, *given: Any) -> None:
        self._mailbox.post.remote(Message(self._run, event, given))
        self.posted += 1


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


def carried_out(work: Work, run: Run, mailbox: Any) -> tuple[Outcome | Exception, int]:
    """Carries out one run in a process of Ray.

    Returns:
        What became of it, and how many messages it has posted. What would meet every run is an error as a value, since
        Ray would wrap one that is raised into the text of its traceback.
    """
    watcher = PostingWatcher(mailbox, run)
    return _outcome(work, run, StageReporter(watcher)), watcher.posted


def _outcome(work: Work, run: Run, stages: StageReporter) -> Outcome | Exception:
    _settle_in(work)
    folder = ComparisonFolder(work.folder)
    try:
        _expect_shared(folder)
        command = f"{run.name}, a task of Ray"
        with disk_full_explained(folder.path), locked(folder.run(run.method, run.seed), command, wait=_PREDECESSOR):
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
    logging.disable_progress_bar()
    datasets.disable_progress_bars()


def _expect_shared(folder: ComparisonFolder) -> None:
    if not (folder.start / "start.json").is_file():
        raise ValueError(
            f"{folder.path}: must lie on a disk that all machines of the Ray cluster see (it is not on "
            f"{socket.gethostname()}); choose another folder ({named('out')})"
        )
