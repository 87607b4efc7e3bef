"""Distributed training with torchrun or ``accelerate launch``: all processes train, only the main one does the rest.

The main process reads data, evaluates and writes. For training it sends the other processes what they need, and all
processes train together. An error ends all processes.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

_PATIENCE = timedelta(days=30)
"""How long a process waits for the main process, which may measure for hours. If the main process ends, all processes
end."""

_SPEAKS_FIRST = 5.0
"""Seconds that a process waits before it prints an error, so that the main process can print it first."""


class MainProcessError(ValueError):
    """The main process ended with an error. The other processes raise this exception with the error's text."""


def count() -> int:
    """Number of processes started by a launcher; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched() -> bool:
    """Whether a launcher has started this process, even as the only one. Like accelerate, tests ``LOCAL_RANK``."""
    return "LOCAL_RANK" in os.environ


def is_main() -> bool:
    """Whether this is the main process, which reads data, evaluates, writes and prints."""
    return int(os.environ.get("RANK", "0")) == 0


class _Lead:
    """What the main process knows about the other processes."""

    leads = False  # whether the other processes wait for work that this process sends
    out_of_step = False  # whether an error occurred during common work, so that the others may wait for something else


_lead = _Lead()


@contextmanager
def leading() -> Iterator[None]:
    """In this block the main process may use ``together``. When the block ends, the other processes end too."""
    if count() == 1 or _lead.leads:
        yield
        return
    _lead.leads, said = True, None
    try:
        yield
    except BaseException as problem:
        said = f"{type(problem).__name__}: {problem}"
        raise
    finally:
        _lead.leads = False
        if not _lead.out_of_step:  # otherwise they wait for something else, and the launcher ends them
            _broadcast(said)


@contextmanager
def together(asked: dict[str, Any], agreed: type[Exception]) -> Iterator[None]:
    """Sends ``asked``, the work of this block, to the other processes, which do the same work at the same time.

    Outside a block of ``leading``, nothing is sent. ``agreed`` is the type of an error that all processes raise if one
    of them does. After such an error, all continue.

    Raises:
        SystemExit: If an earlier such block had any other error, because the processes are then out of step.
    """
    if not _lead.leads:
        yield
        return
    if _lead.out_of_step:
        raise SystemExit(
            "processes: a training failed in one of them, and the others are out of step; start the same command again"
        )
    _broadcast(asked)
    _lead.out_of_step = True
    try:
        yield
    except agreed:
        _lead.out_of_step = False
        raise
    else:
        _lead.out_of_step = False


def received() -> Iterator[dict[str, Any]]:
    """Yields each piece of work that the main process sends with ``together``, until its block of ``leading`` ends.

    Raises:
        MainProcessError: If that block ended with an error.
    """
    while (work := _broadcast(None)) is not None:
        if isinstance(work, str):
            raise MainProcessError(work)
        yield work


def wait_for_main_error() -> None:
    """Waits some seconds, so that the main process prints an error first. In the main process it returns immediately.

    The other processes end with the main process, so an error that all processes have is printed only once. An error
    that the main process does not have is printed by the process that raised it.
    """
    if not is_main():
        time.sleep(_SPEAKS_FIRST)


def let_others_speak() -> None:
    """Waits some seconds if there are other processes, because one of them may have caused the error of this process.

    In this case the launcher ends this process meanwhile, so that only the first error is printed.
    """
    if count() > 1:
        time.sleep(_SPEAKS_FIRST if is_main() else 2 * _SPEAKS_FIRST)


def connect() -> None:
    """Creates torch's group of all processes, unless it exists. A created group is destroyed when this process ends."""
    import torch
    from accelerate import PartialState

    is_new = not torch.distributed.is_initialized()
    PartialState(cpu=not torch.accelerator.is_available(), timeout=_PATIENCE)
    if is_new and torch.distributed.is_initialized():
        atexit.register(_disconnect)


def _disconnect() -> None:
    # threads of a group that still run when the interpreter ends can abort the process
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _broadcast(sent: Any) -> Any:
    # sends an object from the main process to all processes
    import torch

    connect()
    held = [sent]
    torch.distributed.broadcast_object_list(held)
    return held[0]
