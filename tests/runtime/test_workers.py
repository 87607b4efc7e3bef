from __future__ import annotations

import os
import signal
import time
from multiprocessing import active_children

import pytest
import torch

from nextword.inference.scoring.opened_model import OpenedModel, open_model
from nextword.runtime.workers import workers
from tests.helpers.word_models import word_model, word_tokenizer


def opened() -> OpenedModel:
    return OpenedModel.of(word_model(), word_tokenizer())


def killed() -> OpenedModel:
    """As by a system that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def missing() -> OpenedModel:
    return open_model("./no/such")


class Square:
    """A task that says in which process it was carried out, and with how many threads."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, model: OpenedModel) -> tuple[int, int, int]:
        assert model.name
        return self.number**2, os.getpid(), torch.get_num_threads()


@pytest.mark.slow
def test_answers_come_in_order_and_processes_stay() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    two = workers(opened, 2)
    found = list(two.answers(map(Square, range(9))))
    again = list(two.answers(map(Square, range(9))))
    assert [square for square, *_ in found] == [number**2 for number in range(9)]
    processes = {process for _, process, _ in found}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert {process for _, process, _ in again} == processes
    assert {threads for *_, threads in found} == {1}
    assert torch.equal(before, torch.get_rng_state()), "the generator of the user was drawn from"


@pytest.mark.slow
def test_an_error_in_a_process_is_the_same_one_line() -> None:
    for count in (None, 1):
        with pytest.raises(ValueError, match=r"^\./no/such: no such folder[^\n]*$"):
            next(workers(missing, count).answers([Square(1)]))


@pytest.mark.slow
def test_a_process_that_is_ended_is_said() -> None:
    with pytest.raises(ValueError, match=r"processes:.*1 was ended"):
        next(workers(killed, 1).answers([Square(1)]))


@pytest.mark.parametrize("count", [0, 1025])
def test_the_number_of_processes_has_ends(count: int) -> None:
    with pytest.raises(ValueError, match=r"processes:.*1 to 1,024"):
        workers(opened, count)


def interrupted() -> OpenedModel:
    """Ctrl-C goes to all processes; this one then works on for a long time."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
    raise AssertionError


def test_an_interruption_ends_the_processes_at_once_and_silently(capfd: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(workers(interrupted, 1).answers([Square(1)]))
    assert time.monotonic() - began < 50
    assert active_children() == []
    assert capfd.readouterr().err == ""
