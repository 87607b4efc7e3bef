"""The Ray engine: each run is a Ray task on the cores and GPUs of this machine or of a cluster."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nextword.experiments.comparison.comparison_settings import CompareConfig, build_task
from nextword.experiments.comparison.engines.engine import (
    Engine,
    Outcome,
    Resources,
    attempted,
    failed,
    registry,
    startable,
)
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.initial_checkpoint import InitialCheckpoint
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.results.records import disk_full_explained, locked
from nextword.runtime import optional_libraries as extras
from nextword.runtime import processes
from nextword.runtime.progress import Watcher
from nextword.settings import plugins
from nextword.settings.setting_names import named

_LOOKS_EVERY = 0.5
"""Seconds between two deliveries of progress; waiting runs are also started at these times."""

_PATIENCE = 60.0
"""Maximum number of seconds to wait for cancelled tasks to end."""


@registry.register("ray")
class RayEngine(Engine):
    """Engine that runs each run as a Ray task. A run waits while another run does a training that both need.

    ``ray.init()`` is called unless it was called before. It joins the cluster in ``RAY_ADDRESS``, or starts Ray on this
    machine until this process ends. Ray does not repeat a failed task, because the task may still be writing on a
    machine that lost its connection. The run of a failed task counts as failed, and the next call of ``compare``
    resumes it.
    """

    def expect(self, config: CompareConfig) -> None:
        """Start Ray. Unless ``RAY_ADDRESS`` is set, check that a machine has enough cores and GPUs for a run.

        Raises:
            ValueError: If Ray is not installed, torchrun has started several processes, or no machine has enough
                resources.
        """
        if extras.missing(["ray"]):
            raise ValueError(f"{named('engine')}: ray is not installed; {extras.install('ray')}")
        if processes.count() > 1:
            raise ValueError(
                f"{named('engine')}: must be sequential under a launcher of several processes ({processes.count()} "
                "given); start nextword without torchrun"
            )
        ray = _started()
        if os.environ.get("RAY_ADDRESS"):
            return  # a cluster may add machines once there are tasks for them
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        taken = self._taken(config, ray)
        for option, resource, wanted in (("cpus", "CPU", taken.cpus), ("gpus", "GPU", taken.gpus)):
            most = max((machine.get(resource, 0) for machine in machines), default=0)
            if wanted is not None and wanted > most:
                raise ValueError(
                    f"--{option}: must be at most {most:g}, what a machine has here ({wanted:g} given); ask for less, "
                    "or set RAY_ADDRESS to a cluster"
                )

    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """Carry out the runs as Ray tasks. Yield each run with its outcome, in the order in which the runs finish."""
        ray = _started()
        taken = self._taken(setting.config, ray)
        mailbox = ray.remote(Mailbox).options(num_cpus=0).remote()
        task = ray.remote(carried_out).options(num_cpus=taken.cpus, num_gpus=taken.gpus, max_retries=0)
        deliveries = Deliveries(mailbox, setting.stages)
        work = ray.put(_work(setting, taken))
        waiting, running = list(runs), dict[Any, Run]()
        try:
            while waiting or running:
                for run in startable(waiting, running.values(), setting):
                    waiting.remove(run)
                    running[task.remote(work, run, mailbox)] = run
                done, _ = ray.wait(list(running), timeout=_LOOKS_EVERY)
                deliveries.deliver()
                for reference in done:
                    run = running.pop(reference)
                    yield run, _outcome(ray, reference, run, setting, deliveries)
        finally:
            _end(ray, list(running))
            ray.kill(mailbox)

    def _taken(self, config: CompareConfig, ray: Any) -> Resources:
        cpus = self.resources.cpus or config.threads or 1
        gpus = self.resources.gpus
        return Resources(cpus, min(1.0, ray.cluster_resources().get("GPU", 0.0)) if gpus is None else gpus)


def _started() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports to the developers of Ray
    import ray

    if not ray.is_initialized():
        ray.init(include_dashboard=False, logging_level="WARNING")
    return ray


def _work(setting: Setting, taken: Resources) -> Work:
    return Work(
        config=setting.config,
        start=setting.start,
        folder=setting.folder.path,
        directory=Path.cwd(),
        threads=taken.cpus or 1,
        modules=tuple(one.module for one in plugins.plugins() if one.package is None),
    )


def _outcome(ray: Any, reference: Any, run: Run, setting: Setting, deliveries: Deliveries) -> Outcome:
    answer: Outcome | Exception
    try:
        answer, posted = ray.get(reference)
    except ray.exceptions.RayError as problem:  # the task's process was killed, or could not start
        return failed(run, setting, problem)
    deliveries.deliver_all(run, posted)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _end(ray: Any, references: list[Any]) -> None:
    # kills the tasks and waits for their end, because the folder is free only then
    for reference in references:
        ray.cancel(reference, force=True)
    if references:
        ray.wait(references, num_returns=len(references), timeout=_PATIENCE)


# -- A run as a Ray task: the data that its process gets, its work, and its progress messages.

_MESSAGE_EVERY = 1.0
"""Minimum number of seconds between two progress messages of a stage."""

_PREDECESSOR = 60.0
"""Seconds to wait for a task of an earlier comparison whose main process was killed, because Ray ends such a task only
after a delay."""


@dataclass(frozen=True)
class Message:
    """A progress report of a run: the name of a method of ``Watcher`` (``event``) and its arguments (``given``)."""

    run: str
    event: str
    given: tuple[Any, ...]


class Mailbox:
    """A Ray actor that queues the progress messages of Ray tasks."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def post(self, message: Message) -> None:
        """Add ``message`` to the queue."""
        self._messages.append(message)

    def take(self) -> list[Message]:
        """Return and remove all queued messages."""
        taken, self._messages = self._messages, []
        return taken


class Deliveries:
    """Passes messages from a mailbox actor to a watcher."""

    def __init__(self, mailbox: Any, progress: Watcher) -> None:
        self._mailbox, self._progress = mailbox, progress
        self._delivered = Counter[str]()

    def deliver(self) -> None:
        """Take all queued messages from the mailbox, and call the watcher's methods that they name."""
        import ray

        for message in ray.get(self._mailbox.take.remote()):
            getattr(self._progress, message.event)(*message.given)
            self._delivered[message.run] += 1

    def deliver_all(self, run: Run, posted: int) -> None:
        """Pass messages until ``posted`` messages of ``run`` are passed. Some arrive after the run's task has ended."""
        while self._delivered[run.name] < posted:
            self.deliver()


class PostingWatcher(Watcher):
    """Posts the progress reports of ``run`` to ``mailbox``, but not its outcome, which ``carried_out`` returns.

    Posting never waits, because Ray would give the cores of a waiting task to another task.
    """

    def __init__(self, mailbox: Any, run: Run) -> None:
        self._mailbox, self._run = mailbox, run.name
        self._last = 0.0
        self.posted = 0

    def began(self, name: str, stage: str) -> None:
        """Post that ``stage`` of the run begins."""
        self._post("began", name, stage)

    def advanced(self, name: str, share: float) -> None:
        """Post the finished ``share`` of the stage, unless a share was posted less than a second before."""
        now = time.monotonic()
        if now - self._last >= _MESSAGE_EVERY:
            self._last = now
            self._post("advanced", name, share)

    def ended(self, name: str, stage: str, seconds: float) -> None:
        """Post that ``stage`` of the run has ended, and its duration."""
        self._post("ended", name, stage, seconds)

    def _post(self, event: str, *given: Any) -> None:
        self._mailbox.post.remote(Message(self._run, event, given))
        self.posted += 1


@dataclass(frozen=True)
class Work:
    """Data sent to every Ray task of a comparison."""

    config: CompareConfig
    start: InitialCheckpoint
    folder: Path
    directory: Path
    """Working directory of the main process. Relative paths in ``config`` refer to it."""
    threads: int
    modules: tuple[str, ...]
    """Modules of ``--import``."""


def carried_out(work: Work, run: Run, mailbox: Any) -> tuple[Outcome | Exception, int]:
    """Carry out one run in a Ray process.

    Returns:
        The outcome, and the number of posted messages. An error that would make every run fail is returned in place
        of the outcome: if it were raised, Ray would convert it to the text of its traceback.
    """
    watcher = PostingWatcher(mailbox, run)
    _settle_in(work)
    folder = ComparisonFolder(work.folder)
    answer: Outcome | Exception
    try:
        if not (folder.start / "start.json").is_file():
            raise ValueError(
                f"{folder.path}: must lie on a disk that all machines of the Ray cluster see (it is not on "
                f"{socket.gethostname()}); choose another folder ({named('out')})"
            )
        command = f"{run.name}, a task of Ray"
        with disk_full_explained(folder.path), locked(folder.run(run.method, run.seed), command, wait=_PREDECESSOR):
            answer = attempted(run, Setting(work.config, build_task(work.config), folder, work.start, watcher))
    except (ValueError, OSError) as problem:
        answer = problem
    return answer, watcher.posted


def _settle_in(work: Work) -> None:
    # gives this process the working directory and the imports of the main process
    import datasets
    from transformers.utils import logging

    os.chdir(work.directory)
    torch.set_num_threads(work.threads)
    for module in work.modules:
        plugins.request(module)
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
