"""Runs tasks in this process or in several. Each process first opens an object, such as a model, for its tasks."""

from __future__ import annotations

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import active_children
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Generic, TypeVar, cast

import torch
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from nextword.settings import plugins

Opened = TypeVar("Opened")
Answer = TypeVar("Answer")

MOST_PROCESSES = 1024

WorkerTask = Callable[[Opened], Answer]
"""A task: a function of the opened object. The task and its result must be picklable."""


class Workers(ABC, Generic[Opened]):
    """Base class of objects that run tasks, in this process or in others."""

    in_this_process: bool
    """Whether tasks run in this process, so that they can call its functions, such as a progress function."""

    @abstractmethod
    def answers(self, tasks: Iterable[WorkerTask[Opened, Answer]]) -> Iterator[Answer]:
        """Yields the result of each task, in order. A task is read when a worker is free, so few tasks are in memory.

        Raises:
            ValueError: If a task raised it, or a process was killed.
        """


class ThisProcess(Workers[Opened]):
    """Runs one task after another in this process."""

    in_this_process = True

    def __init__(self, open_one: Callable[[], Opened]) -> None:
        self._opened = open_one()

    def answers(self, tasks: Iterable[WorkerTask[Opened, Answer]]) -> Iterator[Answer]:
        """Yields each result as soon as its task is done."""
        for task in tasks:
            yield task(self._opened)


class Processes(Workers[Opened]):
    """``count`` worker processes of torch's ``DataLoader``. Each calls ``open_one`` once, and uses one thread.

    ``open_one`` must be picklable. ``datasets.map`` is not used, because it forks this process,
    which breaks CUDA and torch's threads, and because it would open the object at each call.
    """

    in_this_process = False

    def __init__(self, open_one: Callable[[], Opened], count: int) -> None:
        self._tasks = _Tasks()
        self._count = count
        self._loader: Any = DataLoader(
            _Asked(open_one, tuple(one.module for one in plugins.plugins() if one.package is None)),
            sampler=self._tasks,
            batch_size=None,
            num_workers=count,
            collate_fn=_as_it_is,  # otherwise torch would convert an answer to tensors
            multiprocessing_context=_QuietContext(),
            persistent_workers=True,
            generator=torch.Generator(),  # otherwise torch takes a seed from the user's generator
        )

    def answers(self, tasks: Iterable[WorkerTask[Opened, Answer]]) -> Iterator[Answer]:
        """Yields the results in the order of ``tasks``. At most two tasks per process are waiting."""
        self._tasks.given = tasks
        try:
            for answer in self._loader:
                if isinstance(answer, _Refused):
                    raise ValueError(answer.why)
                yield cast(Answer, answer)
        except KeyboardInterrupt:
            _end_all()
            raise
        except RuntimeError as problem:
            if "DataLoader worker" not in str(problem):
                raise
            raise ValueError(
                f"processes: must all run until the work is done (one of {self._count} was ended: {problem}); if "
                "memory was short, use fewer"
            ) from problem


class _QuietProcess(SpawnProcess):
    """A process that ignores Ctrl-C, because it would print a traceback. The process that started it ends it."""

    def start(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            super().start()
            return
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a process that is started now inherits this
        try:
            super().start()
        finally:
            signal.signal(signal.SIGINT, before)


class _QuietContext(SpawnContext):
    Process = _QuietProcess


def _end_all() -> None:
    # kills all processes; a data loader would wait for each, and would report its end as an error
    told = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for process in active_children():
        if isinstance(process, _QuietProcess):
            process.terminate()
            process.join()
    signal.signal(signal.SIGCHLD, told)


@dataclass
class _Tasks(Sampler[Any]):
    given: Iterable[Any] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.given)


@dataclass(frozen=True)
class _Refused:
    """A ``ValueError`` of another process. If it were raised there, it would come with a long traceback."""

    why: str


@dataclass
class _Asked(Dataset[Any]):
    """The object that a process has opened, and its answer to each task."""

    open_one: Callable[[], Any]
    modules: tuple[str, ...]
    opened: Any = field(default=None, init=False)

    def __getitem__(self, task: Any) -> Any:
        try:
            if self.opened is None:
                self.opened = self._open()
            return task(self.opened)
        except ValueError as problem:
            return _Refused(str(problem))

    def _open(self) -> Any:
        for module in self.modules:
            plugins.request(module)
        worker = get_worker_info()
        if worker is not None and torch.cuda.is_available():
            torch.cuda.set_device(worker.id % torch.cuda.device_count())
        return self.open_one()


def _as_it_is(answer: Any) -> Any:
    return answer


def workers(open_one: Callable[[], Opened], processes: int | None) -> Workers[Opened]:
    """Starts ``processes`` workers, each of which calls ``open_one`` once. None: this process is the only worker.

    Raises:
        ValueError: If ``processes`` is not from 1 to 1,024.
    """
    if processes is None:
        return ThisProcess(open_one)
    if not 1 <= processes <= MOST_PROCESSES:
        raise ValueError(
            f"processes: must be from 1 to {MOST_PROCESSES:,} ({processes:,} given); take one for each core"
        )
    return Processes(open_one, processes)
