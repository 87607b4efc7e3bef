from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from nextword.retrieval.ngram import building


def test_an_interruption_does_not_wait_for_the_sorter() -> None:
    finish = threading.Event()

    def sort() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        finish.wait(60)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        building._interruptible(sort)
    finish.set()
    assert time.monotonic() - began < 30


def test_what_the_sorter_gives_or_raises_is_handed_on() -> None:
    assert building._interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        building._interruptible(lambda: 1 // 0)
