"""Conditioner specs: ``bergpt:2``, ``lmh:max,published`` and the like, to a typed config and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.conditioning.conditioner import PUBLISHED, ConditionerConfig, registry
from nextword.config import read_term, validated, write_term


def parse_conditioner(spec: str | Mapping[str, Any] | ConditionerConfig) -> ConditionerConfig:
    """The typed config of a conditioner spec, of a config written out in full, or of a config as it is.

    >>> parse_conditioner("LMH:max").pooling
    'max'
    >>> parse_conditioner({"conditioner": "bergpt:2", "tied": True}).last
    2
    >>> parse_conditioner("bergpt:published").trains
    'new'
    >>> parse_conditioner("bertgpt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.registry.UnknownNameError: unknown conditioner 'bertgpt'. Did you mean 'bergpt'? Known: ...

    Raises:
        ValueError: Unknown name (with the nearest known one), unknown key, or arguments that do not fit.
    """
    if isinstance(spec, ConditionerConfig):
        return spec
    if isinstance(spec, str):
        spec = {"conditioner": spec}
    if not isinstance(spec, Mapping):
        given = type(spec).__name__  # type: ignore[unreachable]  # whatever a caller without types gives
        raise ValueError(f"conditioner: a spec such as 'bergpt' or its settings are needed, {given} given")
    if "conditioner" not in spec:
        raise ValueError(f"conditioner: missing; it names the conditioner. Known: {', '.join(registry.names())}.")
    name, arguments = read_term(str(spec["conditioner"]).lower())
    config = registry.get(name).Config
    try:
        named = _named(config, arguments)
    except ValueError as fault:
        raise ValueError(f"conditioner spec '{spec['conditioner']}': {fault}") from None
    twice = sorted(key for key in set(named) & set(spec) if named[key] != spec[key])
    if twice:
        raise ValueError(
            f"conditioner.{twice[0]}: given as {named[twice[0]]!r} by '{spec['conditioner']}' and as {spec[twice[0]]!r}"
        )
    return validated(config, {**named, **spec, "conditioner": name}, "conditioner")


def conditioner_spec(config: ConditionerConfig) -> str:
    """The shortest spec that names this config; settings that a spec cannot name are left out.

    >>> conditioner_spec(parse_conditioner({"conditioner": "bergpt", "last": 3}))
    'bergpt:3'
    """
    return write_term(config.conditioner, [*config.arguments(), *([PUBLISHED] if config.is_published else [])])


def _named(config: type[ConditionerConfig], arguments: list[str]) -> dict[str, Any]:
    """The settings that arguments name: a conditioner's own, and ``published``."""
    own = [argument for argument in arguments if argument != PUBLISHED]
    named = config.from_arguments(own)
    if len(own) == len(arguments):
        return named
    if not config.published:
        raise ValueError(f"'{PUBLISHED}' asks for a paper's own model, and this conditioner is from no paper")
    return {**named, **config.published}
