"""What messages call a setting: the option of the command that runs, or the argument of a function in Python.

One check serves users of both:

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
"""The options of a command by the settings that they are, looked up where a message is made."""

_command: ContextVar[Options | None] = ContextVar("command", default=None)


@contextmanager
def of_command(options: Options) -> Iterator[None]:
    """Within this block a command runs that has these options."""
    before = _command.set(options)
    try:
        yield
    finally:
        _command.reset(before)


def named(setting: str, value: object = None) -> str:
    """A setting by its name in Python, alone or as it is given a value."""
    options = _command.get()
    known = {} if options is None else options()
    option = known.get(setting, known.get(setting.removesuffix("s")))  # one that may be repeated is in the singular
    if value is None:
        return option or setting
    return f"{option} {value}" if option else f"{setting}={value}"


def either(command: str, python: str) -> str:
    """What to write on the command line where a command runs, and what in Python elsewhere."""
    return python if _command.get() is None else command
