"""Specs: how a part is written. ``mos:3+mi`` is the head ``mos`` with one argument, then the modifier ``mi``.

One grammar for every kind of part: ``name[:argument,...][+modifier[:argument,...]]...``, in any case. A modifier fills
one field of the part's config, and a part takes the modifiers whose fields its config has. Heads, objectives,
conditioners and metrics are a :class:`Grammar` each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from nextword.config import Settings, validated
from nextword.registry import Registry


class SpecSettings(Settings):
    """Settings that a spec such as ``mos:3,static`` can name by what stands after its colon."""

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Settings for the arguments of a spec: ``mos:3,static`` calls this with ``["3", "static"]``; none without any.

        Raises:
            ValueError: There are no such arguments.
        """
        if arguments:
            raise ValueError(f"takes no arguments ({','.join(arguments)!r} given)")
        return {}

    def arguments(self) -> list[str]:
        """The inverse of :meth:`from_arguments`, empty where all is default."""
        return []

    @classmethod
    def from_spec(cls, arguments: list[str]) -> dict[str, Any]:
        """As :meth:`from_arguments`, with the arguments that all parts of a kind take."""
        return cls.from_arguments(arguments)

    def spec_arguments(self) -> list[str]:
        """The inverse of :meth:`from_spec`."""
        return self.arguments()


@dataclass(frozen=True)
class ModifierEntry:
    """A way to write a modifier that has a page of its own; what ``nextword list`` shows.

    Args:
        name: How it is written.
        meaning: What it is, in a sentence.
        example: A whole spec with it.
        page: Name of its page, beside those of the parts that it follows.
    """

    name: str
    meaning: str
    example: str
    page: str


class Modifier(ABC):
    """What a ``+name:arguments`` of a spec stands for: the value of one field of the config."""

    field: ClassVar[str]
    usage: ClassVar[str]
    """How to write it, for messages."""
    entries: ClassVar[tuple[ModifierEntry, ...]]
    """What ``nextword list`` shows of it."""

    @staticmethod
    @abstractmethod
    def parse(name: str, arguments: list[str]) -> Any:
        """The field's value; raises ValueError where the arguments do not fit."""

    @staticmethod
    @abstractmethod
    def write(value: Any) -> tuple[str, list[str]] | None:
        """The inverse of :meth:`parse`; None where the value is what stands without the modifier."""


class Modifiers(Registry[type[Modifier]]):
    """The modifiers of one kind of part, by name."""

    def __init__(self) -> None:
        super().__init__("modifier", Modifier)

    def written(self, name: str) -> str:
        """How a modifier is written, for the list of all in a message."""
        return self.get(name).usage

    def by_field(self) -> dict[str, type[Modifier]]:
        """The modifiers by the field that each fills."""
        return {modifier.field: modifier for modifier in map(self.get, self.names())}


C = TypeVar("C", bound=SpecSettings)


class Grammar(Generic[C]):
    """Reads and writes the specs of one kind of part.

    Args:
        registry: The parts by name, each with a ``Config``. The registry's kind, such as "head", is also the field of a
            config that names the part.
        config: What all configs of this kind extend.
        example: A spec, for messages.
        modifiers: What may follow a ``+``; none by default.
    """

    def __init__(
        self, registry: Registry[Any], config: type[C], example: str, modifiers: Modifiers | None = None
    ) -> None:
        self.registry = registry
        self.config = config
        self.example = example
        self.modifiers = Modifiers() if modifiers is None else modifiers

    def parse(self, spec: str | Mapping[str, Any] | C) -> C:
        """The typed config of a spec, of settings whose name may be a spec, or of a config as it is.

        Raises:
            ValueError: An unknown name (with the nearest known one), an unknown key, a modifier that the part does not
                take, arguments that do not fit, or a setting given twice.
        """
        kind = self.registry.kind
        if isinstance(spec, self.config):
            return spec
        if isinstance(spec, str):
            values = self._read(spec)
            return validated(self._config_of(values[kind]), values, f"{kind} spec '{spec}'")
        if not isinstance(spec, Mapping):
            given = type(spec).__name__
            raise ValueError(f"{kind}: must be a spec such as '{self.example}' or its settings ({given} given)")
        if kind not in spec:
            raise ValueError(f"{kind}: missing; it names the {kind}. Known: {', '.join(self.registry.names())}.")
        values = self._read(str(spec[kind]))
        place = self.place(values[kind])
        for key in sorted(set(values) & set(spec) - {kind}):
            if values[key] != spec[key]:
                raise ValueError(f"{place}.{key}: given as {values[key]!r} by '{spec[kind]}' and as {spec[key]!r}")
        return validated(self._config_of(values[kind]), {**values, **spec, kind: values[kind]}, place)

    def write(self, config: C) -> str:
        """The shortest spec that names this config; settings that a spec cannot name are left out."""
        terms = [write_term(getattr(config, self.registry.kind), config.spec_arguments())]
        modifiers = self.modifiers.by_field()
        for field in type(config).model_fields:
            written = modifiers[field].write(getattr(config, field)) if field in modifiers else None
            if written is not None:
                terms.append(write_term(*written))
        return "+".join(terms)

    def place(self, name: str) -> str:
        """What messages put before a setting of the part of this name: its kind, as in ``head.components``."""
        return self.registry.kind

    def expect_known(self, name: str) -> None:
        """Raises ValueError where no part is called so."""
        self.registry.get(name)

    def _config_of(self, name: str) -> type[C]:
        config: type[C] = self.registry.get(name).Config
        return config

    def _read(self, text: str) -> dict[str, Any]:
        """The settings that a spec names, the part's name among them."""
        (name, arguments), *terms = map(read_term, text.lower().split("+"))
        self.expect_known(name)
        config = self._config_of(name)
        try:
            values = {self.registry.kind: name, **config.from_spec(arguments)}
            written: dict[str, str] = {}
            for term, term_arguments in terms:
                if not len(self.modifiers):
                    raise ValueError(f"takes no modifier ('+{term}' given)")
                modifier = self.modifiers.get(term)
                if modifier.field not in config.model_fields:
                    raise ValueError(self._refusal(name, term))
                value = modifier.parse(term, term_arguments)
                if modifier.field in written:
                    first = written[modifier.field]
                    if term == first:
                        raise ValueError(f"'+{term}' stands there twice; write it once")
                    both = self.write(config(**values | {modifier.field: _joined(values[modifier.field], value)}))
                    raise ValueError(f"'+{term}' stands beside '+{first}'; write both as one, as in '{both}'")
                values[modifier.field], written[modifier.field] = value, term
        except ValueError as fault:
            raise ValueError(f"{self.registry.kind} spec '{text}': {fault}") from None
        return values

    def _refusal(self, name: str, term: str) -> str:
        """Why a part takes no such modifier, and which ones do."""
        modifier, modifiers = self.modifiers.get(term), self.modifiers.by_field()
        takes = [modifiers[field].usage for field in self._config_of(name).model_fields if field in modifiers]
        takers = [other for other in self.registry.names() if modifier.field in self._config_of(other).model_fields]
        own = f"it takes {', '.join(takes)}" if takes else "it takes no modifier"
        return f"'{name}' takes no '+{term}', which is for {', '.join(takers)}; {own}"


def read_term(text: str) -> tuple[str, list[str]]:
    """Name and arguments of a term of a spec.

    >>> read_term("mos:3, static"), read_term("cache")
    (('mos', ['3', 'static']), ('cache', []))
    """
    name, colon, rest = text.strip().partition(":")
    return name.strip(), [argument.strip() for argument in rest.split(",")] if colon else []


def write_term(name: str, arguments: list[str]) -> str:
    """The inverse of :func:`read_term`."""
    return f"{name}:{','.join(arguments)}" if arguments else name


def _joined(first: Any, second: Any) -> Any:
    """The values of two modifiers as that of one; lists, such as the numbers of rerankers, one after the other."""
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return second
    twice = (key for key in first.keys() & second.keys() if isinstance(first[key], list | tuple))
    return {**first, **second, **{key: [*first[key], *second[key]] for key in twice}}
