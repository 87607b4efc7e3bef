"""Records, such as results, as JSON files. They are validated strictly and written atomically."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from pydantic import ValidationError, model_validator

from nextword.settings.config import DeferredModel

SCHEMA_VERSION = 6
"""Version of the format of results.json. docs/file-formats.md says when it is increased."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a new file for writing, which replaces ``path`` at the end of the block, atomically: only when complete.

    The file is a temporary one in the folder of ``path``, which is created if missing. At the end of the block the file
    is renamed to ``path``; after an error in the block it is deleted. Temporary files that killed processes left in the
    folder are deleted too.

    Raises:
        DiskFullError: If there is not enough disk space.
    """
    path = Path(path)
    with disk_full_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(path.parent)
        temporary, file = _temporary(path)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


TEMPORARY = re.compile(r"\..+\.(?P<machine>[0-9a-f]{4})[0-9a-f]{8}\.tmp")
"""Pattern of the names of temporary files."""

LONG_SILENCE = 24 * 3600.0
"""Age in seconds from which a temporary file of another machine is deleted. A younger file may be in use, because this
machine may not see the other machine's lock."""


def _temporary(path: Path) -> tuple[Path, BinaryIO]:
    """A new file to write to, which is locked while it is open, and its path."""
    while True:
        # tempfile is not used: only their owner can read its files, but results are meant to be shared
        temporary = path.with_name(f".{path.name}.{_machine()}{secrets.token_hex(4)}.tmp")
        file = open(temporary, "xb")  # noqa: SIM115  # the caller closes it
        with contextlib.suppress(OSError):  # the disk may not support locks
            _lock(file, wait=True)
        if temporary.exists():  # false if another process deleted the file before it was locked
            return temporary, file
        file.close()


def _delete_abandoned(folder: Path) -> None:
    for path in folder.glob(".*.tmp"):
        if name := TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError), path.open("rb") as file:
                if name["machine"] == _machine() or time.time() - path.stat().st_mtime > LONG_SILENCE:
                    _lock(file, wait=False)  # raises an OSError if the file's process is alive
                    path.unlink()


def _lock(file: BinaryIO, wait: bool) -> None:
    if sys.platform != "win32":  # Windows does not delete open files, so no lock is needed
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:4]


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Writes ``text`` as UTF-8 to the file ``path``, which is created or replaced as a whole (see ``replacing``)."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


class Record(DeferredModel):
    """Base class of records, which are saved as JSON files. They are frozen and strict, and unknown keys are errors."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the record as JSON, [atomically][nextword.results.records.write_atomically].

        Raises:
            ValueError: If a number is NaN or infinite, which JSON cannot represent.
            DiskFullError: If there is not enough disk space.
        """
        wrong = "; ".join(non_finite(self.model_dump()))
        if wrong:
            raise ValueError(f"{path}: {wrong}; only finite numbers are recorded")
        text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, allow_nan=False, indent=2)
        write_atomically(path, text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a record that [`save`][nextword.results.records.Record.save] wrote.

        Raises:
            ValueError: If the file does not exist, is not JSON (for example because it is incomplete), or is not a
                valid record of this class. The message names the file and each wrong value.
        """
        content = _read_json(Path(path))
        try:
            # as JSON text, because strict validation of JSON accepts an array for a tuple and 1 for a float
            return cls.model_validate_json(json.dumps(content))
        except ValidationError as error:
            lines = [(_place(line["loc"], content), line["msg"]) for line in error.errors()]
            wrong = "\n".join(f"  {place}{message.removeprefix('Value error, ')}" for place, message in lines)
            raise ValueError(f"{path} is not a valid {cls.__name__} record:\n{wrong}") from None


class VersionedRecord(Record):
    """A record that is the whole content of a file, with the version of its format in ``schema_version``."""

    schema_version: int = SCHEMA_VERSION
    """Version of the file format."""

    @model_validator(mode="before")
    @classmethod
    def _schema_is_known(cls, content: Any) -> Any:
        # checked before all fields, so that the error says that the file is newer, and not that many fields are wrong
        version = content.get("schema_version", SCHEMA_VERSION) if isinstance(content, dict) else SCHEMA_VERSION
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"schema_version: must be a whole number from 1 to {SCHEMA_VERSION} ({version!r} given)")
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"schema_version is {version}, this nextword reads up to {SCHEMA_VERSION}: "
                "it was written by a newer nextword; upgrade to read it"
            )
        return content


def kind_of(path: str | os.PathLike[str]) -> str:
    """The field ``kind`` of a record's file, such as "compare" or "evaluate".

    Raises:
        ValueError: If the file does not exist, is not JSON, or does not have this field.
    """
    content = _read_json(Path(path))
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str):
        raise ValueError(f"{path} does not say what kind of results it holds")
    return kind


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}); is it half-written or another file?") from None


def _place(loc: tuple[int | str, ...], content: Any) -> str:
    # a run is named by its method and seed instead of its index
    if len(loc) > 1 and loc[0] == "runs" and isinstance(loc[1], int):
        run = content["runs"][loc[1]]
        if isinstance(run, dict):
            inner = ".".join(str(part) for part in loc[2:])
            # an error of a run as a whole already has its name in the message
            return f"run '{run.get('method')}' (seed {run.get('seed')}), {inner}: " if inner else ""
    return f"{'.'.join(str(part) for part in loc)}: " if loc else ""


def non_finite(value: Any, where: str = "") -> Iterator[str]:
    """Yields a message for each NaN or infinite number in ``value`` and in its nested dicts and lists."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where} is {value}"
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from non_finite(inner, f"{where}.{key}" if where else str(key))


# -- A full disk, which is reported with a one-line message wherever it is noticed.

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""System errors of a full disk: no space, quota exceeded, file too large."""

TORCH_WRITES = ("inline_container.cc", "iostream error")
"""Texts of which torch's error has one if a file cannot be written completely."""


class DiskFullError(OSError):
    """A file could not be written because the disk is full. The message says where, and what to do."""


@contextlib.contextmanager
def disk_full_explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """In this block, converts errors of a full disk to ``DiskFullError``, whose message names ``path``."""
    try:
        yield
    except DiskFullError:
        raise
    except Exception as problem:
        reason = full_disk(problem)
        if reason is None:
            raise
        raise DiskFullError(no_room(path, reason)) from problem


def no_room(path: str | os.PathLike[str], reason: str) -> str:
    """Error message for a full disk, with the file ``path`` and the system's message ``reason``."""
    return (
        f"{os.fspath(path)} cannot be written: {reason}. Make room and run the same command again; what is finished is "
        "kept"
    )


def full_disk(problem: BaseException) -> str | None:
    """The system's message about a full disk, from an error or its causes. ``None`` for other errors.

    >>> full_disk(OSError(28, "No space left on device")), full_disk(OSError(13, "Permission denied"))
    ('No space left on device', None)
    """
    cause = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)
    return _no_room(problem) or (None if cause is None else full_disk(cause))


def _no_room(problem: BaseException) -> str | None:
    number = problem.errno if isinstance(problem, OSError) else None
    if number is None and (code := re.search(r"\(os error (\d+)\)", str(problem))):  # safetensors, tokenizers
        number = int(code[1])
    if number in FULL:
        return os.strerror(number)
    # torch.save does not report why writing failed. If a permission is missing, it fails before, with another message.
    torch_wrote = isinstance(problem, RuntimeError) and any(sign in str(problem) for sign in TORCH_WRITES)
    return "the disk is full" if torch_wrote and "Reader" not in str(problem) else None
