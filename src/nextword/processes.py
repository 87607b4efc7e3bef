"""Several processes at one job, as torchrun and ``accelerate launch`` start them: one writes, the others wait.

Every process runs the same program. What must happen once (a lock, a file, a measurement) is done by the main one. An
error in one of them ends all: the launcher stops the others when one has ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from accelerate import PartialState

Made = TypeVar("Made")

_SPEAKS_FIRST = 5.0
"""Seconds in which the main process says what is wrong, before another one does."""

_PATIENCE = timedelta(days=30)
"""How long a process waits for another one: while the main one measures, that may be hours. One that hangs for good is
ended with all others by whoever started them."""


def count() -> int:
    """How many processes a launcher has started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the process that writes and speaks."""
    return int(os.environ.get("RANK", "0")) == 0


def wait_for_all() -> None:
    """Returns when every process has come this far."""
    if count() > 1:
        _joined().wait_for_everyone()


@contextmanager
def main_first() -> Iterator[None]:
    """The block is run by the main process, then by the others, which find what it has written."""
    if count() == 1:
        yield
        return
    with _joined().main_process_first():
        yield


def main_alone(work: Callable[[], Made]) -> Made | None:
    """What ``work`` gives in the main process; None in the others, which wait for its end."""
    made = work() if is_main() else None
    wait_for_all()
    return made


def let_main_speak() -> None:
    """Returns at once in the main process, in others after a while: what all have come upon, it has said by then.

    Its end ends the others, so that an error is printed once; one that it does not know of is printed by its own
    process.
    """
    if not is_main():
        time.sleep(_SPEAKS_FIRST)


def _joined() -> PartialState:
    """The group of all processes, made at the first call."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available(), timeout=_PATIENCE)
