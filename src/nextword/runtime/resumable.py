"""What work resumes in: whose a folder or an unfinished file is, one process at a time, and checkpoints of arrays."""

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
"""Settings by the names that earlier versions wrote."""


class ResumableFolder:
    """A folder that is refused to other work once its own has begun, and in which the same work resumes.

    Args:
        path: The folder.
        kind: What the work is, for messages: "training".
        manifest: Name of the file that says which work it is.
        signs: Names of files and folders, of which there is one once the work has begun.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, manifest: str, signs: Iterable[str]) -> None:
        self.path, self.kind = Path(path), kind
        self.manifest, self._signs = self.path / manifest, [self.path / sign for sign in signs]

    @property
    def has_begun(self) -> bool:
        """Whether there is something to protect: what was refused before leaves nothing."""
        return any(sign.exists() for sign in self._signs)

    def begun(self) -> dict[str, Any] | None:
        """What the manifest says, where the work has begun; None: the folder is free.

        Raises:
            ValueError: The folder holds other files, or its manifest cannot be read.
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
        """Writes down which work it is, and of which version."""
        write_atomically(self.manifest, json.dumps({"nextword": __version__, **content}, indent=2) + "\n")


def begin(manifest: Path, record: Record, kind: str, may_differ: Callable[[str], bool] = lambda key: False) -> None:
    """Writes down what a folder is for, a "training"; the next time, expects that it is for the same.

    Raises:
        ValueError: It is for something else, with the differences named, or what it is for cannot be read.
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
    """Raises ValueError where a folder or file was begun for another "training" than is asked for: says which differs.

    The rest is as for ``differences``.
    """
    refuse_others(path, kind, differences(before, asked, may_differ))


def refuse_others(path: Path, kind: str, different: Sequence[str]) -> None:
    """Raises ValueError where there is something different."""
    if different:
        raise ValueError(
            f"{path} belongs to another {kind} ({'; '.join(different)}); choose another {named('out')}, or delete it "
            "to begin again"
        )


def set_ones(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that are not None: what an earlier version did not know was not set."""
    return {name: value for name, value in settings.items() if value is not None}


def read_manifest(path: Path, writer: str) -> dict[str, Any]:
    """The content of such a file.

    Args:
        path: The file.
        writer: What writes such files, for the message: "a comparison".

    Raises:
        ValueError: It cannot be read, or is no such file.
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
    """In what two sets of settings differ, a phrase for each key, tables within tables with dots.

    Args:
        before: What the folder or file says.
        asked: What is asked for now.
        may_differ: Keys of which a difference does not count.

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


# -- One process at a time in a folder that is written to.

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
    them the owner renews a second file every few seconds, and when it has not been renewed for ``LEASE_SECONDS`` on
    another machine, the next process continues.

    ``command`` is what the owner does, for the message that others get; ``wait`` are seconds to wait for another
    process of this machine.

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
    """Makes the file of a lock, and its folder; ValueError where nothing can be written there."""
    # a lock that cannot be made would be taken for one that another process holds
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


# -- Arrays and checkpoints of them as files: written as a whole or not at all, read without pickle.

UNREADABLE = (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error)
"""What is raised for a file that is missing, half-written or something else."""

SAVE_SECONDS = 30.0
"""Between two saves of unfinished work; what is lost at most when it is killed, besides what is in work."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes a .npz file so that ``path`` holds either its old content or all of the new, never a part."""
    import numpy as np

    with replacing(path) as file:  # a file, not a name: numpy would add an ending to a name
        np.savez(file, allow_pickle=False, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray] | np.ndarray:
    """The arrays of a .npz file by name, or the one array of a .npy file; raises one of ``UNREADABLE``."""
    import numpy as np

    found = np.load(path, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return found
    with found:
        return {name: found[name] for name in found.files}


class ArrayCheckpoint:
    """Work that is not finished, as a file of arrays from which the same call resumes it.

    Args:
        path: The file; None keeps nothing.
        kind: What the work is, for messages: "count".
        settings: All that the arrays depend on.
    """

    def __init__(self, path: Path | None, kind: str, settings: Mapping[str, Any]) -> None:
        self.path, self._kind, self._settings = path, kind, settings
        self._saved_at = time.monotonic()

    def load(self, restored: Callable[[dict[str, Any], dict[str, np.ndarray]], Restored]) -> Restored | None:
        """What is made of the facts and arrays that were saved last; None where there are none.

        Raises:
            ValueError: They cannot be read, or were saved with other settings, with the differences named.
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
        """Whether it is long ago that it was saved."""
        return self.path is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS

    def save(self, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Writes facts, which JSON can say, and arrays."""
        import numpy as np

        if self.path is not None:
            content = json.dumps({**about, "settings": self._settings})
            write_arrays(self.path, {"about": np.array(content), **arrays})
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """The work is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
