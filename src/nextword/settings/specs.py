"""Specs: short texts that name a component (a head, objective, conditioner or metric) and its settings.

``mos:3+mi`` is the head ``mos`` with one argument and the modifier ``mi``. All kinds of components have the same
grammar: ``name[:argument,...][+modifier[:argument,...]]...``, case-insensitive. An argument is a word or number that
the component defines (``mos:3,static``), or any of its settings by name (``cache:temperature=0.5``,
``histalign:paper,alpha=0.5``). A modifier sets one field of the component's config. A component accepts those modifiers
whose field is in its config. Each kind of component has a ``Grammar``.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from nextword.settings.config import Settings, validated
from nextword.settings.overrides import read_value
from nextword.settings.registry import Registry

PUBLISHED = "published"
"""Word in a spec such as ``cache:published`` that selects the settings in the component's paper."""


class SpecSettings(Settings):
    """Settings that can be given in a spec after the colon, as in ``mos:3,static``."""

    published: ClassVar[Mapping[str, Any]] = {}
    """Settings of the component's paper, which the word ``published`` in a spec selects. Empty if there is no such
    word for this component, for example because the defaults are the paper's."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """The settings that ``arguments`` of a spec select. The arguments of ``mos:3,static`` are ``["3", "static"]``.

        Raises:
            ValueError: If the arguments are invalid.
        """
        if arguments:
            raise ValueError(f"takes no arguments ({','.join(arguments)!r} given)")
        return {}

    def arguments(self) -> list[str]:
        """The inverse of ``from_arguments``: arguments that select these settings. Empty if they are the defaults."""
        return []

    @classmethod
    def from_spec(cls, arguments: list[str]) -> dict[str, Any]:
        """Like ``from_arguments``, but with the settings of the paper if ``published`` is among the arguments."""
        own = [argument for argument in arguments if argument != PUBLISHED]
        settings = cls.from_arguments(own)
        if len(own) == len(arguments):
            return settings
        if not cls.published:
            raise ValueError(f"'{PUBLISHED}' asks for a form that a paper has, and this has no other; leave it out")
        return {**settings, **cls.published}

    @property
    def is_published(self) -> bool:
        """Whether all settings in ``published`` have the paper's values. False if ``published`` is empty."""
        return bool(self.published) and all(getattr(self, name) == value for name, value in self.published.items())

    def spec_arguments(self) -> list[str]:
        """The inverse of ``from_spec``: arguments that select these settings, with ``published`` if it applies."""
        return [*self.arguments(), *([PUBLISHED] if self.is_published else [])]


@dataclass(frozen=True)
class ModifierEntry:
    """A form of a modifier that has its own documentation page.

    ``nextword list`` shows it with an explanation and an example spec.
    """

    name: str
    meaning: str
    example: str
    page: str


class Modifier(ABC):
    """A modifier ``+name:arguments`` of a spec. It sets one field of the component's config."""

    field: ClassVar[str]
    usage: ClassVar[str]
    """Syntax of the modifier, for messages."""
    entries: ClassVar[tuple[ModifierEntry, ...]]
    """The entries that ``nextword list`` shows."""

    @classmethod
    def meaning(cls, name: str) -> str:
        """The meaning of the modifier ``name``. If ``name`` combines letters, the meanings of all letters."""
        meanings = {entry.name.removeprefix("+").partition(":")[0]: entry.meaning for entry in cls.entries}
        letters = [meaning for letter, meaning in meanings.items() if len(letter) == 1 and letter in name]
        return " ".join(letters) or meanings.get(name, "")

    @staticmethod
    @abstractmethod
    def parse(name: str, arguments: list[str]) -> Any:
        """The value that ``+name:arguments`` gives the field. Raises ValueError if the arguments are invalid."""

    @staticmethod
    @abstractmethod
    def write(value: Any) -> tuple[str, list[str]] | None:
        """The inverse of ``parse``: name and arguments for ``value``. None if the value needs no modifier."""


class Modifiers(Registry[type[Modifier]]):
    """Registry of the modifiers of one kind of component."""

    def __init__(self) -> None:
        super().__init__("modifier", Modifier)

    def written(self, name: str) -> str:
        """The modifier's ``usage``, which the list of known modifiers in an error shows."""
        return self.get(name).usage

    def by_field(self) -> dict[str, type[Modifier]]:
        """A mapping from config field to the modifier that sets it."""
        return {modifier.field: modifier for modifier in map(self.get, self.names())}

    def described(self, config: SpecSettings) -> Iterator[tuple[str, str]]:
        """Yields the short form (``+mi``) and the meaning of each modifier that ``config`` needs."""
        for field, modifier in self.by_field().items():
            written = modifier.write(getattr(config, field)) if field in type(config).model_fields else None
            if written is not None:
                yield f"+{write_term(*written)}", modifier.meaning(written[0])


C = TypeVar("C", bound=SpecSettings)


class Grammar(Generic[C]):
    """Parses and writes the specs of one kind of component.

    Args:
        registry: The components. Each class has a ``Config`` that extends ``config``. The registry's kind, such as
            "head", is also the name of the config field with the component's name.
        config: Base class of the configs.
        example: A spec, shown in errors.
        modifiers: The modifiers of this kind of component; None: no modifiers.
    """

    def __init__(
        self, registry: Registry[Any], config: type[C], example: str, modifiers: Modifiers | None = None
    ) -> None:
        self.registry = registry
        self.config = config
        self.example = example
        self.modifiers = Modifiers() if modifiers is None else modifiers

    def parse(self, spec: str | Mapping[str, Any] | C) -> C:
        """Parses a spec, or a mapping of settings, into a config. A config is returned unchanged.

        The key of a mapping that is the registry's kind, such as "head", has the component's name or spec.

        Raises:
            ValueError: If a name or key is unknown, a modifier is not accepted, arguments are invalid, or a setting is
                given twice.
        """
        kind = self.registry.kind
        if isinstance(spec, self.config):
            return spec
        if isinstance(spec, str):
            values = self.table(spec)
            return validated(self._config_of(values[kind]), values, f"{kind} spec '{spec}'")
        if not isinstance(spec, Mapping):
            given = type(spec).__name__
            raise ValueError(f"{kind}: must be a spec such as '{self.example}' or its settings ({given} given)")
        if kind not in spec:
            raise ValueError(f"{kind}: missing; it names the {kind}. Known: {', '.join(self.registry.names())}.")
        values = self.table(str(spec[kind]))
        place = self.place(values[kind])
        for key in sorted(set(values) & set(spec) - {kind}):
            if values[key] != spec[key]:
                raise ValueError(f"{place}.{key}: given as {values[key]!r} by '{spec[kind]}' and as {spec[key]!r}")
        return validated(self._config_of(values[kind]), {**values, **spec, kind: values[kind]}, place)

    def table(self, text: str) -> dict[str, Any]:
        """The spec ``text`` as a mapping from setting to value, with the component's name. Values are not validated."""
        (name, arguments), *terms = map(read_term, split_outside(text, "+"))
        self.expect_known(name)
        config = self._config_of(name)
        kind = self.registry.kind
        try:
            values: dict[str, Any] = _settings(name, arguments, lambda given: {kind: name, **config.from_spec(given)})
            written: dict[str, str] = {}
            for term, term_arguments in terms:
                if not len(self.modifiers):
                    raise ValueError(f"takes no modifier ('+{term}' given)")
                modifier = self.modifiers.get(term)
                if modifier.field not in config.model_fields:
                    raise ValueError(self._refusal(name, term))
                value = _settings(f"+{term}", term_arguments, partial(modifier.parse, term))
                if modifier.field in written:
                    first = written[modifier.field]
                    if term == first:
                        raise ValueError(f"'+{term}' is given twice; write it once")
                    together = values | {modifier.field: _joined(values[modifier.field], value)}
                    both = self.write(validated(config, together))
                    raise ValueError(f"'+{term}' is given beside '+{first}'; write both as one, as in '{both}'")
                if modifier.field in values:
                    raise ValueError(f"'{modifier.field}' is given twice, by its name and by '+{term}'")
                values[modifier.field], written[modifier.field] = value, term
        except ValueError as fault:
            raise ValueError(f"{self.registry.kind} spec '{text}': {fault}") from None
        return values

    def write(self, config: C) -> str:
        """The shortest spec that parses to this config. Positional arguments come first, then settings by name."""
        return "+".join(write_term(term.name, term.arguments()) for term in self._terms(config))

    def title(self, config: C) -> str:
        """Like ``write``, but without settings by name; for titles in tables and names of folders of comparisons."""
        return "+".join(write_term(term.name, term.positional) for term in self._terms(config))

    def place(self, name: str) -> str:
        """Prefix of a component's settings in messages. It is the kind of the component, as in ``head.components``."""
        return self.registry.kind

    def expect_known(self, name: str) -> None:
        """Raises ValueError if no component has the name ``name``."""
        if name not in self.registry and name in self.modifiers:
            usual = self.modifiers.get(name).entries[-1].example
            raise ValueError(
                f"{self.registry.kind} '{name}': must follow a {self.registry.kind} (alone given); write it as in "
                f"'{usual}'"
            )
        self.registry.get(name)

    def _terms(self, config: C) -> Iterator[_SpecTerm]:
        kind, modifiers = self.registry.kind, self.modifiers.by_field()
        name = getattr(config, kind)
        apart = {kind, *modifiers}

        def read(given: list[str]) -> dict[str, Any]:
            return {kind: name, **config.from_spec(given)}

        yield _SpecTerm(name, config.spec_arguments(), config, read, apart)
        for field in type(config).model_fields:
            modifier, value = modifiers.get(field), getattr(config, field)
            written = None if modifier is None else modifier.write(value)
            if modifier is not None and written is not None:
                yield _SpecTerm(*written, value, partial(modifier.parse, written[0]), set())

    def _config_of(self, name: str) -> type[C]:
        config: type[C] = self.registry.get(name).Config
        return config

    def _refusal(self, name: str, term: str) -> str:
        modifier, modifiers = self.modifiers.get(term), self.modifiers.by_field()
        takes = [modifiers[field].usage for field in self._config_of(name).model_fields if field in modifiers]
        takers = [other for other in self.registry.names() if modifier.field in self._config_of(other).model_fields]
        own = f"it takes {', '.join(takes)}" if takes else "it takes no modifier"
        return f"'{name}' takes no '+{term}', which is for {', '.join(takers)}; {own}"


@dataclass(frozen=True)
class _SpecTerm:
    """A term of a spec that is being written."""

    name: str
    positional: list[str]
    settings: Any
    read: Callable[[list[str]], Any]  # function that returns the values of positional arguments
    apart: Set[str]  # settings that are in other terms

    def arguments(self) -> list[str]:
        """The positional arguments, then by name all settings that the positional arguments do not include."""
        values = self.read(self.positional)
        if not isinstance(values, Mapping):
            return self.positional
        usual = validated(type(self.settings), values)
        others = [
            name
            for name in type(usual).model_fields
            if name not in self.apart and getattr(usual, name) != getattr(self.settings, name)
        ]
        if not values.keys().isdisjoint(others):  # for example a number that is rounded as a positional argument
            return replace(self, positional=[]).arguments()
        return [*self.positional, *(write_argument(name, getattr(self.settings, name)) for name in others)]


def _settings(name: str, arguments: list[str], read: Callable[[list[str]], Any]) -> Any:
    """Settings from the arguments of a term: positional arguments through ``read``, and settings by name."""
    positional, named = read_arguments(arguments)
    values = read(positional)
    if not named:
        return values
    if not isinstance(values, Mapping):
        raise ValueError(f"'{name}' has no settings ('{next(iter(named))}' given)")
    twice = next((key for key in named if key in values), None)
    if twice is not None:
        before = f"{name}:{','.join(positional)}" if positional else name
        raise ValueError(f"'{twice}' is given twice, by '{before}' and by its name")
    return {**values, **named}


def _joined(first: Any, second: Any) -> Any:
    """Joins the values of two modifiers. Lists, such as reranker sizes, are concatenated."""
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return second
    twice = (key for key in first.keys() & second.keys() if isinstance(first[key], list | tuple))
    return {**first, **second, **{key: [*first[key], *second[key]] for key in twice}}


# -- The characters of a spec: ``+`` between terms, ``,`` between arguments, and ``key=value`` for settings by name.

_PIECE = re.compile(
    r"""
    "(?:\\.|[^"\\])*" | '[^']*'            # in quotes: one piece
    | (?<==)\s*[-+]?[\d_.]+[eE]\+(?=\d)    # the beginning of a number such as 1e+5
    | .                                    # any other sign
    """,
    re.VERBOSE | re.DOTALL,
)
_BARE = re.compile(r"[\w.@-]+")
"""Text that needs no quotes, unless it would be parsed as another type (``true``, ``7``)."""


def split_outside(text: str, mark: str) -> list[str]:
    """Splits ``text`` at each ``mark`` that is not in quotes, in brackets or in a number.

    >>> split_outside('f2:counts="a+b.npz"+mi', "+"), split_outside("cache:weight=1e+0", "+")
    (['f2:counts="a+b.npz"', 'mi'], ['cache:weight=1e+0'])
    >>> split_outside("2,layers=[0,-1]", ",")
    ['2', 'layers=[0,-1]']
    """
    parts, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        if piece == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def read_term(text: str) -> tuple[str, list[str]]:
    """Splits a term of a spec into its name, in lower case, and its arguments.

    >>> read_term("MoS:3, static"), read_term("cache")
    (('mos', ['3', 'static']), ('cache', []))
    """
    name, colon, rest = text.strip().partition(":")
    return name.strip().lower(), [argument.strip() for argument in split_outside(rest, ",")] if colon else []


def write_term(name: str, arguments: list[str]) -> str:
    """The inverse of ``read_term``."""
    return f"{name}:{','.join(arguments)}" if arguments else name


def read_arguments(arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Splits arguments into positional arguments, in lower case, and settings by name.

    Values of settings are parsed as on the command line, and ``none`` as None. Text in them keeps its case.

    >>> read_arguments(["Paper", "alpha=0.5", "base=mle"])
    (['paper'], {'alpha': 0.5, 'base': 'mle'})

    Raises:
        ValueError: If a name is given twice.
    """
    positional: list[str] = []
    named: dict[str, Any] = {}
    for argument in arguments:
        setting = re.fullmatch(r"(\w+)\s*=\s*(.*)", argument, re.DOTALL)
        if setting is None:
            positional.append(argument.lower())
            continue
        key = setting[1].lower()
        if key in named:
            raise ValueError(f"'{key}' is given twice")
        named[key] = _read(setting[2])
    return positional, named


def write_argument(name: str, value: Any) -> str:
    """Writes a setting by name, in the form that ``read_arguments`` parses.

    >>> write_argument("alpha", 0.5), write_argument("counts", "Mine/a.npz"), write_argument("layers", [0, -1])
    ('alpha=0.5', 'counts="Mine/a.npz"', 'layers=[0,-1]')
    """
    bare = isinstance(value, str) and _BARE.fullmatch(value) and _read(value) == value
    return f"{name}={value if bare else _toml(value)}"


def _read(text: str) -> Any:
    return None if text.lower() == "none" else read_value(text)


def _toml(value: Any) -> str:
    """A value as TOML without spaces, or ``none``, because TOML has no such value."""
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}={_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).lower() if isinstance(value, bool) else repr(value)
