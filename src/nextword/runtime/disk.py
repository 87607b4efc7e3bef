"""A disk that is full, said in one line wherever it is noticed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space left, a quota is used up, a file is larger than the disk or the shell allows."""

TORCH_WRITES = ("inline_container.cc", "iostream error")
"""What torch's errors say when a file cannot be written to its end."""


class DiskFullError(OSError):
    """Something could not be written because there is no room for it; says where and what to do."""


@contextlib.contextmanager
def disk_full_explained(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raises ``DiskFullError`` in place of what the libraries raise inside the block when ``path`` has no room."""
    try:
        yield
    except DiskFullError:
        raise
    except Exception as problem:
        reason = full_disk(problem)
        if reason is None:
            raise
        raise DiskFullError(
            f"{os.fspath(path)} cannot be written: {reason}. Make room and run the same command again; "
            "what is finished is kept"
        ) from problem


def full_disk(problem: BaseException) -> str | None:
    """Why there was no room, in the system's words; ``None`` for any other problem.

    >>> full_disk(OSError(28, "No space left on device")), full_disk(OSError(13, "Permission denied"))
    ('No space left on device', None)
    """
    number = problem.errno if isinstance(problem, OSError) else None
    if number is None and (code := re.search(r"\(os error (\d+)\)", str(problem))):  # safetensors, tokenizers
        number = int(code[1])
    if number in FULL:
        return os.strerror(number)
    # torch.save does not pass on why writing failed; a missing permission fails before, with another message.
    torch_wrote = isinstance(problem, RuntimeError) and any(sign in str(problem) for sign in TORCH_WRITES)
    return "the disk is full" if torch_wrote and "Reader" not in str(problem) else None
