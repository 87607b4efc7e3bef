"""A typed registry that maps names in specs, configs and on the command line to classes.

A decorator registers each class, in this library or in a plug-in (``nextword.settings.plugins``), so that no list has
to be edited:

    >>> animals = Registry[type]("animal")
    >>> @animals.register("cat")
    ... class Cat: ...
    >>> animals.get("CAT") is Cat
    True
    >>> animals.get("cot")
    Traceback (most recent call last):
    ...
    nextword.settings.registry.UnknownNameError: unknown animal 'cot'. Did you mean 'cat'? Known: cat.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from nextword.settings import plugins
from nextword.settings.setting_names import either

T = TypeVar("T")


class UnknownNameError(ValueError):
    """A name that is not registered."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" Did you mean 'x'?"`` for the known name most similar to ``name``. ``""`` if no name is similar."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""


class Registry(Generic[T]):
    """A mapping from names to classes of one kind. Names are unique and case-insensitive.

    Args:
        kind: Kind of the classes, in the singular, for messages.
        base: Class that all classes must extend.
        also: Name of a package that registers more classes. Like plug-ins, this package is imported when an unknown
            name or all names are requested.
    """

    def __init__(self, kind: str, base: type = object, also: str | None = None) -> None:
        self.kind = kind
        self._base = base
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._also = also

    def register(self, name: str, *, aliases: Iterable[str] = ()) -> Callable[[T], T]:
        """Decorator that registers a class under ``name`` and under ``aliases``. Lists do not show the aliases.

        Raises:
            ValueError: If ``name`` has capitals, spaces, ``+``, ``:`` or ``,``. The decorator raises it if ``name`` or
                an alias belongs to another class, if the class does not extend ``base``, or if the class's
                ``Config`` has another default name.
        """
        if name != name.lower() or any(mark in name for mark in "+:, "):
            raise ValueError(f"{self.kind} name '{name}': use lower case without spaces, '+', ':' or ','")

        def file(entry: T) -> T:
            if not (isinstance(entry, type) and issubclass(entry, self._base)):
                raise ValueError(f"{self.kind} '{name}': must extend {_origin(self._base)} ({_origin(entry)} given)")
            named = getattr(getattr(entry, "Config", None), "model_fields", {}).get(self.kind)
            if named is not None and not named.is_required() and named.default not in (name, None):
                field = f'{self.kind}: Literal["{name}"] = "{name}"'
                raise ValueError(
                    f"{self.kind} '{name}': its Config must have the field {field} ('{named.default}' given)"
                )
            taken = self._entries.get(name)
            if taken is not None and _origin(taken) != _origin(entry):
                raise ValueError(f"{self.kind} '{name}': is {_origin(taken)} already; rename {_origin(entry)}")
            for other in (name, *aliases):
                owner = self._aliases.get(other, other)
                if owner != name and (owner in self._entries):
                    raise ValueError(f"{self.kind} '{name}': '{other}' is another name of '{owner}' already; rename it")
            self._entries[name] = entry
            self._aliases |= dict.fromkeys(aliases, name)
            return entry

        return file

    def get(self, name: str) -> T:
        """The class whose name or alias is ``name``, in upper or lower case.

        Raises:
            UnknownNameError: If the name is unknown. The message has the most similar name and all known names.
        """
        if name not in self:
            near = did_you_mean(name, [*self._entries, *self._aliases])
            known = ", ".join(map(self.written, self.names()))
            way = either("`--import MODULE` before the command", "`import MODULE`")
            own = "" if near else f" One of your own is known once its module was imported: {way}."
            raise UnknownNameError(f"unknown {self.kind} '{name}'.{near} Known: {known}.{own}")
        return self._entries[self._aliases.get(name.lower(), name.lower())]

    def written(self, name: str) -> str:
        """The form in which the list of known names in an error shows ``name``."""
        return name

    def names(self) -> tuple[str, ...]:
        """All registered names, sorted, including those of plug-ins but not the aliases."""
        return tuple(sorted(self._all()))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        key = self._aliases.get(name.lower(), name.lower())
        return key in self._entries or key in self._all() or key in self._aliases

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        if self._also is not None:
            importlib.import_module(self._also)
        plugins.load()
        return self._entries


def _origin(entry: Any) -> str:
    return f"{getattr(entry, '__module__', '?')}.{getattr(entry, '__qualname__', entry)}"
