"""Distributed training with torchrun or ``accelerate launch``: rank 0 does everything else, other ranks only train.

The main process reads data, evaluates and writes. For training it sends the other processes what they need, and all
train together. An error ends all processes.
"""

from __future__ import annotations

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
    """Whether a launcher has started this process, perhaps as the only one; accelerate goes by the same sign."""
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
    """Within this block the main process may work ``together``; its end, good or bad, is the end for the others."""
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
    """Sends the others what they are to do, too, within this block; nothing where none waits.

    ``agreed`` is an error that all raise, if one does; after it all continue.

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
    """What the main process sends, one after another until it has ended.

    Raises:
        MainProcessError: It ended with an error.
    """
    while (work := _broadcast(None)) is not None:
        if isinstance(work, str):
            raise MainProcessError(work)
        yield work


def wait_for_main_error() -> None:
    """Returns at once in the main process, in others after a while: what all have come upon, it has said by then.

    Its end ends the others, so that an error is printed once; one that it does not know of is printed by its own
    process.
    """
    if not is_main():
        time.sleep(_SPEAKS_FIRST)


def let_others_speak() -> None:
    """Returns after a while, where there are others: one of them may have ended, and this one only lost its connection.

    The launcher ends it meanwhile, so that the error of that other one is all that is printed.
    """
    if count() > 1:
        time.sleep(_SPEAKS_FIRST if is_main() else 2 * _SPEAKS_FIRST)


def connect() -> None:
    """Makes the group of all processes, where it is not there yet."""
    import torch
    from accelerate import PartialState

    PartialState(cpu=not torch.accelerator.is_available(), timeout=_PATIENCE)


def _broadcast(sent: Any) -> Any:
    # gives all what the main process sends
    import torch

    connect()
    held = [sent]
    torch.distributed.broadcast_object_list(held)
    return held[0]
