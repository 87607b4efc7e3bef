"""Distributed training with torchrun or ``accelerate launch``: rank 0 does everything else, other ranks only train.

The main process reads data, evaluates and writes. For training it sends the other processes what they need, and all
train together. An error ends all processes.
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
"""How long a process waits for the main one, which may measure for hours. If that ends, the launcher ends all."""

_SPEAKS_FIRST = 5.0
"""Seconds in which the main process says what is wrong, before another one does."""


class MainProcessError(ValueError):
    """The main process ended with an error; raised in the other processes, with the error's text."""


def count() -> int:
    """Number of processes started by a launcher; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched() -> bool:
    """Whether a launcher has started this process, perhaps as the only one; accelerate tests the same variable."""
    return "LOCAL_RANK" in os.environ


def is_main() -> bool:
    """Whether this is the main process, which reads data, evaluates, writes and prints."""
    return int(os.environ.get("RANK", "0")) == 0


class _Lead:
    """What the main process knows of the others."""

    leads = False  # whether they wait for what it sends
    out_of_step = False  # whether they may be anywhere: something failed in the middle of what all do


_lead = _Lead()


@contextmanager
def leading() -> Iterator[None]:
    """Within this block the main process may use ``together``; when the block ends, the other processes end too."""
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
        if not _lead.out_of_step:  # else they wait for something else, until the launcher ends them
            _broadcast(said)


@contextmanager
def together(asked: dict[str, Any], agreed: type[Exception]) -> Iterator[None]:
    """Sends the work of this block to the other processes, which do it too; does nothing if none waits.

    ``agreed`` is an error that all processes raise if one of them does; after it, all continue.

    Raises:
        SystemExit: After any other error in such a block, the processes are out of step and must be started again.
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
    """Yields each piece of work that the main process sends, until the main process ends.

    Raises:
        MainProcessError: It ended with an error.
    """
    while (work := _broadcast(None)) is not None:
        if isinstance(work, str):
            raise MainProcessError(work)
        yield work


def wait_for_main_error() -> None:
    """Returns at once in the main process, in others after a while, when it has printed an error that all have.

    When the main process ends, the others end, so that an error is printed once. An error that it does not have is
    printed by the process that raised it.
    """
    if not is_main():
        time.sleep(_SPEAKS_FIRST)


def let_others_speak() -> None:
    """Returns after a while if there are other processes: one of them may have failed, so that this one lost contact.

    The launcher ends this process meanwhile, so that only the error of the failed one is printed.
    """
    if count() > 1:
        time.sleep(_SPEAKS_FIRST if is_main() else 2 * _SPEAKS_FIRST)


def connect() -> None:
    """Makes the group of all processes, unless it exists; it ends with this process."""
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
    # gives all what the main process sends
    import torch

    connect()
    held = [sent]
    torch.distributed.broadcast_object_list(held)
    return held[0]
