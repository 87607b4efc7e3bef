"""One process leads, the others do what it sends."""

from __future__ import annotations

from typing import Any

import pytest

from nextword.runtime import processes


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the main process of two sends."""
    found: list[Any] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(processes, "_lead", processes._Lead())
    monkeypatch.setattr(processes, "_broadcast", found.append)
    return found


class AgreedError(Exception):
    """What all processes raise alike."""


def test_alone_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(processes, "_broadcast", lambda _: pytest.fail("nobody listens"))
    with processes.leading(), processes.together({"steps": 1}, AgreedError):
        pass
    assert (processes.count(), processes.is_main()) == (1, True)


def test_work_is_sent_and_then_the_end(sent: list[Any]) -> None:
    with processes.leading():
        for steps in (1, 2):
            with processes.together({"steps": steps}, AgreedError):
                pass
    assert sent == [{"steps": 1}, {"steps": 2}, None]


def test_an_error_between_two_works_ends_the_others(sent: list[Any]) -> None:
    with pytest.raises(OSError, match="disk"), processes.leading():
        raise OSError("disk")
    assert sent == ["OSError: disk"]


def test_after_an_error_that_all_have_all_go_on(sent: list[Any]) -> None:
    with processes.leading():
        with pytest.raises(AgreedError), processes.together({"steps": 1}, AgreedError):
            raise AgreedError
        with processes.together({"steps": 2}, AgreedError):
            pass
    assert sent == [{"steps": 1}, {"steps": 2}, None]


def test_after_an_error_of_one_nothing_is_sent(sent: list[Any]) -> None:
    """The others wait in the middle of the work, and would take what is sent for a part of it."""

    def lead() -> None:
        with processes.leading():
            with pytest.raises(ValueError, match="mine"), processes.together({"steps": 1}, AgreedError):
                raise ValueError("mine")
            with processes.together({"steps": 2}, AgreedError):
                pytest.fail("begun")

    with pytest.raises(SystemExit, match="out of step"):
        lead()
    assert sent == [{"steps": 1}]


def test_what_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = iter([{"steps": 1}, {"steps": 2}, "OSError: disk"])
    monkeypatch.setattr(processes, "_broadcast", lambda _: next(messages))
    found = []
    with pytest.raises(processes.MainProcessError, match="OSError: disk"):
        found.extend(processes.received())
    messages = iter([{"steps": 1}, None])
    assert list(processes.received()) == [{"steps": 1}]


def test_the_main_process_speaks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        processes.wait_for_main_error()
    assert len(waited) == 1


def test_who_lost_a_connection_waits_for_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    processes.let_others_speak()
    assert not waited
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        processes.let_others_speak()
    assert 0 < waited[0] < waited[1]
