"""One process at a time in a folder, tried with real processes."""

from __future__ import annotations

import contextlib
import errno
import signal
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from nextword.functional.frequency.counting import alone
from nextword.results.records import LOCK_FILES, DiskFullError, locked
from nextword.runtime import resumable

HOLDER = """
import sys, time
{before}
from nextword.runtime import resumable
resumable.LEASE_SECONDS = {seconds}
with resumable.locked(sys.argv[1], "nextword compare first"):
    print("held", flush=True)
    time.sleep(60)
"""
ELSEWHERE = """
import fcntl, socket
socket.gethostname = lambda: "elsewhere"
fcntl.flock = lambda *_: None  # a shared disk on which locks of other machines are not seen
"""


@contextlib.contextmanager
def holder(folder, before="", seconds=resumable.LEASE_SECONDS):
    code = HOLDER.format(before=before, seconds=seconds)
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_second_process_is_told_who_is_there(tmp_path):
    with holder(tmp_path) as process:
        said = rf"in use by process {process.pid} on \S+ since .*: nextword compare first\. Wait.*\(out\)"
        with pytest.raises(ValueError, match=said), locked(tmp_path, "second"):
            pass
        process.send_signal(signal.SIGSTOP)  # suspended, not gone
        with pytest.raises(ValueError, match=f"process {process.pid}"), locked(tmp_path, "third"):
            pass


def test_a_killed_owner_holds_nothing(tmp_path):
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
        with locked(tmp_path, "second"), pytest.raises(ValueError, match="second"), locked(tmp_path, "third"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert ".lock" in LOCK_FILES


def test_an_owner_on_another_machine_holds_the_folder_while_it_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(resumable, "LEASE_SECONDS", 1.0)
    with holder(tmp_path, ELSEWHERE, seconds=1.0) as process:
        with pytest.raises(ValueError, match=f"process {process.pid} on elsewhere"), locked(tmp_path, "second"):
            pass
        process.kill()
        process.wait()
        with locked(tmp_path, "third"):
            pass


def test_it_is_free_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path / "new", "first"):
        raise RuntimeError
    with locked(tmp_path / "new", "second"):
        pass


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc here")
def test_a_folder_that_takes_no_files_is_not_in_use():
    for folder in ("/proc", "/proc/self/out"):
        with pytest.raises(ValueError, match="folder that can be written"):
            locked(folder, "second").__enter__()
    with pytest.raises(ValueError, match="folder that can be written"):
        alone(Path("/proc/counts.npz")).__enter__()


def test_a_full_disk_is_said_with_its_folder(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(filelock.SoftFileLease, "acquire", full)
    with (
        pytest.raises(DiskFullError, match=f"{tmp_path.name} cannot be written: No space left"),
        locked(tmp_path, "me"),
    ):
        pass
    monkeypatch.undo()
    with locked(tmp_path, "me again"):
        pass
