"""Names of settings in messages: the option of the running command, or the argument of a Python function.

With these names, the same check has the right message for users of the command line and of Python:

    >>> named("max_new_tokens"), named("head", "VALUE")
    ('max_new_tokens', 'head=VALUE')
    >>> with of_command(lambda: {"max_new_tokens": "--max-new-tokens", "head": "--head"}):
    ...     named("max_new_tokens"), named("head", "VALUE"), named("task.data", "VALUE")
    ('--max-new-tokens', '--head VALUE', 'task.data=VALUE')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

Options = Callable[[], Mapping[str, str]]
"""Function that returns the options of a command, by setting. It is called when a message is made."""

_command: ContextVar[Options | None] = ContextVar("command", default=None)


@contextmanager
def of_command(options: Options) -> Iterator[None]:
    """In this block, messages name settings as options of the running command, which ``options`` returns."""
    before = _command.set(options)
    try:
        yield
    finally:
        _command.reset(before)


def named(setting: str, value: object = None) -> str:
    """How the user writes ``setting``, alone or with ``value``: as an option of the running command or in Python."""
    options = _command.get()
    known = {} if options is None else options()
    option = known.get(setting, known.get(setting.removesuffix("s")))  # repeatable options have singular names
    if value is None:
        return option or setting
    return f"{option} {value}" if option else f"{setting}={value}"


def either(command: str, python: str) -> str:
    """``command`` in a block of ``of_command``, otherwise ``python``."""
    return python if _command.get() is None else command
