"""Resumes interrupted work: folders that each belong to one piece of work, locks, and checkpoints of arrays."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nextword.runtime.files import Record, disk_full_explained, full_disk, replacing, write_atomically
from nextword.settings.setting_names import named
from nextword.settings.version import __version__

if TYPE_CHECKING:
    import numpy as np

Restored = TypeVar("Restored")

OLD_KEYS = {"places": "positions"}
"""Current names of settings, by their names in earlier versions."""


class ResumableFolder:
    """A folder for one piece of work, such as a training, which can resume there.

    Args:
        path: The folder.
        kind: Kind of work, for messages, such as "training".
        manifest: Name of the file in the folder that identifies the work.
        signs: Names of files and folders. If one of them exists in the folder, the work has begun.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, manifest: str, signs: Iterable[str]) -> None:
        self.path, self.kind = Path(path), kind
        self.manifest, self._signs = self.path / manifest, [self.path / sign for sign in signs]

    @property
    def has_begun(self) -> bool:
        """Whether work has begun in the folder. Other work may then not use the folder."""
        return any(sign.exists() for sign in self._signs)

    def begun(self) -> dict[str, Any] | None:
        """The content of the manifest if the work has begun, otherwise None.

        Raises:
            ValueError: If the folder is a file, has files but no manifest, or has a manifest that cannot be read.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; {named('out')} names a folder")
        strangers = self.path.is_dir() and any(file.name not in LOCK_FILES for file in self.path.iterdir())
        if strangers and not self.manifest.exists():
            raise ValueError(
                f"{self.path} is not empty and holds no {self.kind}; choose another folder ({named('out')})"
            )
        return read_manifest(self.manifest, f"a {self.kind}") if self.has_begun else None

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        """Writes the manifest: ``content``, and the version of nextword."""
        write_atomically(self.manifest, json.dumps({"nextword": __version__, **content}, indent=2) + "\n")


def begin(manifest: Path, record: Record, kind: str, may_differ: Callable[[str], bool] = lambda key: False) -> None:
    """Writes ``record`` as the file ``manifest``, or checks that an existing manifest is for the same work.

    ``kind`` is the kind of work, for messages. ``may_differ`` is as in ``differences``.

    Raises:
        ValueError: If the manifest is for other work (the message names the differences), or cannot be read.
    """
    if not manifest.exists():
        record.save(manifest)
        return
    before = type(record).load(manifest).model_dump(mode="json")
    expect_same(manifest.parent, kind, before, record.model_dump(mode="json"), may_differ)


def expect_same(
    path: Path,
    kind: str,
    before: Mapping[str, Any],
    asked: Mapping[str, Any],
    may_differ: Callable[[str], bool] = lambda key: False,
) -> None:
    """Raises ValueError, which names the differences, if the folder or file ``path`` belongs to other work.

    ``kind`` is the kind of work, for the message. The other arguments are those of ``differences``.
    """
    refuse_others(path, kind, differences(before, asked, may_differ))


def refuse_others(path: Path, kind: str, different: Sequence[str]) -> None:
    """Raises ValueError if ``different``, a result of ``differences`` for the folder or file ``path``, is not empty."""
    if different:
        raise ValueError(
            f"{path} belongs to another {kind} ({'; '.join(different)}); choose another {named('out')}, or delete it "
            "to begin again"
        )


def set_ones(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not None. None counts as not set, like a setting that an earlier version did not have."""
    return {name: value for name, value in settings.items() if value is not None}


def read_manifest(path: Path, writer: str) -> dict[str, Any]:
    """Reads a manifest, the JSON file that identifies the work in a folder.

    Args:
        path: The file.
        writer: The writer of such files, for the message, such as "a comparison".

    Raises:
        ValueError: If the file cannot be read or is not a manifest.
    """
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ValueError(
            f"{path} cannot be read ({problem}); choose another folder ({named('out')}) or delete this one"
        ) from None
    if not isinstance(manifest, dict):
        raise ValueError(
            f"{path} is not what {writer} writes; choose another folder ({named('out')}) or delete this one"
        )
    return manifest


def differences(
    before: Mapping[str, Any], asked: Mapping[str, Any], may_differ: Callable[[str], bool] = lambda key: False
) -> list[str]:
    """The differences between two sets of settings: a phrase for each key that differs, with dots in nested keys.

    Args:
        before: Settings in the folder or file.
        asked: Settings of this call.
        may_differ: Function that returns True for keys that are not compared.

    >>> differences({"model": "gpt2", "training": {"steps": 5}}, {"model": "gpt2", "training": {"steps": 6}})
    ['training.steps: 5 there, 6 asked for']
    >>> differences({"settings": {"places": 5}}, {"settings": {"positions": 5}})  # as an earlier version wrote it
    []
    """
    there = {_by_name_of_today(key): value for key, value in _flat(before).items()}
    now = _flat(json.loads(json.dumps(asked)))
    return [
        f"{key}: {_shown(there, key)} there, {_shown(now, key)} asked for"
        for key in sorted({*there, *now})
        if not (key in there and key in now and there[key] == now[key]) and not may_differ(key)
    ]


def _by_name_of_today(key: str) -> str:
    *tables, name = key.split(".")
    return ".".join([*tables, OLD_KEYS.get(name, name)])


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value} if value != {} else {}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _shown(values: dict[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "nothing"


# -- Locks: only one process at a time may write to a folder.

LOCK, LEASE, OWNER = ".lock", ".lease", ".owner"
LOCK_FILES = frozenset({LOCK, LEASE, OWNER})
"""Files of a lock. When the lock is released, ``LOCK``, an empty file, stays, and the others are deleted."""

LEASE_SECONDS = 30.0
"""Seconds without renewal after which other machines may take a lock. This number is the same in all versions."""


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], command: str, wait: float = 0.0) -> Iterator[None]:
    """In this block, locks ``folder`` against other processes. The folder is created if missing.

    Processes of one machine use a file lock of the operating system, which ends with its process. On a shared disk,
    other machines may not see the file lock. For them the owner of the lock renews a second file every few seconds.
    After ``LEASE_SECONDS`` without renewal, another machine may take the lock.

    ``command`` names the owner in messages of other processes. If another process of this machine has the lock, this
    process waits up to ``wait`` seconds for it.

    Raises:
        ValueError: If the folder is not writable or another process has locked it. The message names that process, its
            machine, its start time and its command.
        DiskFullError: If there is not enough disk space.
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
    """Creates the file ``lock`` and its folder if they are missing. ValueError if the folder cannot be written to."""
    # without this check, a lock that cannot be created would look like a lock of another process
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
    except (OSError, UnicodeDecodeError):  # the process has only just begun, or is ending
        return "another process"


# -- Arrays and checkpoints of arrays as files. A file is written completely or not at all, and read without pickle.

UNREADABLE = (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error)
"""Errors raised for a missing, incomplete or wrong file."""

SAVE_SECONDS = 30.0
"""Minimum number of seconds between two saves of unfinished work."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes ``arrays``, a mapping from name to array, as a .npz file, atomically."""
    import numpy as np

    with replacing(path) as file:  # a file object, because numpy would add an ending to a file name
        np.savez(file, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """Reads a .npz file as a mapping from name to array, a .npy file as an array, or raises one of ``UNREADABLE``."""
    import numpy as np

    found = np.load(path, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return found
    with found:
        return {name: found[name] for name in found.files}


class ArrayCheckpoint:
    """A checkpoint of unfinished work: a file of arrays, from which the same call resumes.

    Args:
        path: The file; None: no checkpoint is saved.
        kind: Kind of work, for messages, such as "count".
        settings: All values on which the arrays depend.
    """

    def __init__(self, path: Path | None, kind: str, settings: Mapping[str, Any]) -> None:
        self.path, self._kind, self._settings = path, kind, settings
        self._saved_at = time.monotonic()

    def load(self, restored: Callable[[dict[str, Any], dict[str, np.ndarray]], Restored]) -> Restored | None:
        """Calls ``restored`` with the arguments of the last ``save``. Returns its result, or None if no file exists.

        Raises:
            ValueError: If the file cannot be read, or was saved with other settings. The message then names the
                differences.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            arrays = read_arrays(self.path)
            if not isinstance(arrays, dict):
                raise ValueError("it is a .npy file")
            about = json.loads(str(arrays.pop("about")))
            settings = dict(about.pop("settings"))
            found = restored(about, arrays)
        except UNREADABLE as fault:
            raise ValueError(
                f"{self.path}: must be an unfinished {self._kind} ({fault}); delete it to begin again"
            ) from None
        expect_same(self.path, self._kind, settings, self._settings)
        return found

    @property
    def is_due(self) -> bool:
        """Whether ``SAVE_SECONDS`` have passed since this object was made or last saved; False without a path."""
        return self.path is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS

    def save(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Saves the facts ``about`` (JSON values) and ``arrays``, with the settings."""
        import numpy as np

        if self.path is not None:
            content = json.dumps({**about, "settings": self._settings})
            write_arrays(self.path, {"about": np.array(content), **arrays})
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Deletes the file, which is not needed after the work is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
