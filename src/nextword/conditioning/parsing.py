"""Conditioner specs: ``bergpt:2``, ``lmh:max,published`` and the like, to a typed config and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.conditioning.conditioner import ConditionerConfig, registry
from nextword.settings.specs import Grammar

grammar = Grammar(registry, ConditionerConfig, "bergpt")


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
    nextword.settings.registry.UnknownNameError: unknown conditioner 'bertgpt'. Did you mean 'bergpt'? Known: ...

    Raises:
        ValueError: Unknown name (with the nearest known one), unknown key, or arguments that do not fit.
    """
    return grammar.parse(spec)


def conditioner_spec(config: ConditionerConfig) -> str:
    """The shortest spec that this config comes back from.

    >>> conditioner_spec(parse_conditioner({"conditioner": "bergpt", "last": 3}))
    'bergpt:3'
    """
    return grammar.write(config)
