"""One process at a time in a folder that is written to."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from nextword.runtime.disk import disk_full_explained, full_disk
from nextword.runtime.files import write_atomically
from nextword.settings.setting_names import named

LOCK, LEASE, OWNER = ".lock", ".lease", ".owner"
LOCK_FILES = frozenset({LOCK, LEASE, OWNER})
"""Files of a lock; all but the first, which is empty, are gone when it is released."""

LEASE_SECONDS = 30.0
"""Without a sign of life for so long, an owner on another machine counts as dead. All versions must agree on it."""


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], command: str, wait: float = 0.0) -> Iterator[None]:
    """Keeps other processes out of ``folder`` (made where missing) inside the ``with`` block.

    The operating system's own lock decides between processes of one machine, and ends with the process that holds it,
    however that ends; one that is only suspended keeps it. Other machines may not see that lock on a shared disk. For
    them the owner renews a second file every few seconds, and when it has been silent for ``LEASE_SECONDS`` on
    another machine, the next process goes on.

    Args:
        folder: What is written to.
        command: What the owner does, for the message that others get.
        wait: Seconds to wait for another process of this machine.

    Raises:
        ValueError: Nothing can be written there, or another process holds the folder; says which one, where, since when
            and for what.
        DiskFullError: There is no room for it.
    """
    from filelock import FileLock, SoftFileLease, Timeout

    folder = Path(folder)
    lease = SoftFileLease(folder / LEASE, lease_duration=LEASE_SECONDS)
    with contextlib.ExitStack() as held:
        try:
            with disk_full_explained(folder):
                expect_writable(folder / LOCK)
                held.enter_context(FileLock(folder / LOCK).acquire(timeout=wait))
                held.enter_context(lease.acquire(timeout=1.5 * LEASE_SECONDS))
        except Timeout:
            raise ValueError(
                f"{folder} is in use by {_owner(folder)}. Wait until it is done, stop it, or choose another folder "
                f"({named('out')})"
            ) from None
        held.callback((folder / OWNER).unlink, missing_ok=True)
        since = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        write_atomically(folder / OWNER, f"process {os.getpid()} on {socket.gethostname()} since {since}: {command}\n")
        yield


def expect_writable(lock: Path) -> None:
    """Makes the file of a lock, and its folder: a lock that cannot be made is taken for one that another process holds.

    Raises:
        ValueError: Nothing can be written there.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    except OSError as problem:
        if full_disk(problem) is not None:
            raise
        raise ValueError(
            f"{lock.parent}: must be a folder that can be written to ({problem.strerror}); choose another "
            f"({named('out')})"
        ) from None


def _owner(folder: Path) -> str:
    try:
        return (folder / OWNER).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):  # it has only just begun, or is just ending
        return "another process"
