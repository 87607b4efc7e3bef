"""Head specs: ``mos:3+mi`` and the like, to a typed config and back, and to a head.

A spec is a head with its arguments, then modifiers: ``head[:argument,...][+modifier[:argument,...]]...``.
A modifier fills one field of the head's config; a head takes the modifiers whose fields it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.allocation import built
from nextword.config import read_term, validated, write_term
from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.modifiers import modifier_named, modifiers


def parse_head(spec: str | Mapping[str, Any] | HeadConfig) -> HeadConfig:
    """The typed config of a head spec, of a config written out in full, or of a config as it is.

    >>> parse_head("MoS:5+Mi").model_dump(exclude_defaults=True)
    {'components': 5, 'mi': {}}
    >>> parse_head({"head": "mos:5", "bias": False}).components
    5
    >>> parse_head({"head": "mos", "componets": 3})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.config.SettingsError: head.componets: unknown key. Did you mean 'components'? Known: bias, ...

    Raises:
        ValueError: An unknown name (with the nearest known one), a modifier that the head does not take, arguments
            that do not fit.
    """
    if isinstance(spec, HeadConfig):
        return spec
    if isinstance(spec, str):
        return _from_text(spec)
    if "head" not in spec:
        raise ValueError(f"head: missing; it names the head. Known: {', '.join(registry.names())}.")
    named = _from_text(str(spec["head"]))
    given = named.model_dump(exclude_unset=True)
    twice = sorted(name for name in set(given) & set(spec) - {"head"} if given[name] != spec[name])
    if twice:
        raise ValueError(f"head.{twice[0]}: given as {given[twice[0]]!r} by '{spec['head']}' and as {spec[twice[0]]!r}")
    return validated(type(named), {**given, **spec, "head": named.head}, "head")


def build_head(config: HeadConfig, dimensions: Dimensions) -> Head:
    """The head of a config.

    Raises:
        ValueError: It cannot sit on such a model, or its parameters would not fit into memory.
    """
    return built(lambda: registry.get(config.head)(config, dimensions), f"head '{head_spec(config)}'")


def _from_text(text: str) -> HeadConfig:
    (name, arguments), *rest = map(read_term, text.lower().split("+"))
    config = registry.get(name).Config
    try:
        values = {"head": name, **config.from_arguments(arguments)}
        for part, part_arguments in rest:
            modifier = modifier_named(part)
            if modifier.field not in config.model_fields:
                raise ValueError(f"'{name}' takes no '+{part}'; {_taken(config)}")
            if modifier.field in values:
                raise ValueError(f"'+{part}' stands beside another part of its kind; write both as one")
            values[modifier.field] = modifier.parse(part, part_arguments)
    except ValueError as fault:
        raise ValueError(f"head spec '{text}': {fault}") from None
    return validated(config, values, f"head spec '{text}'")


def _taken(config: type[HeadConfig]) -> str:
    taken = [modifiers.get(field).usage for field in config.model_fields if field in modifiers]
    return f"it takes {', '.join(taken)}" if taken else "it takes no modifier"


def head_spec(config: HeadConfig) -> str:
    """The shortest spec that names this config; settings that a spec cannot name are left out.

    >>> head_spec(parse_head("mos:3+mi:1x3"))
    'mos:3+mi:1x3'
    >>> head_spec(parse_head("Softmax+Mi+CPR:100,20"))
    'softmax+cpr:20,100+mi'
    """
    parts = [write_term(config.head, config.arguments())]
    for field in type(config).model_fields:
        written = modifiers.get(field).write(getattr(config, field)) if field in modifiers else None
        if written is not None:
            parts.append(write_term(*written))
    return "+".join(parts)
