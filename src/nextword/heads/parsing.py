"""Head specs: ``mos:3+mi`` and the like, to a typed config and back, and to a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.heads.head import Head, HeadConfig, registry
from nextword.heads.input_states import Dimensions, modifiers
from nextword.runtime.weights import built
from nextword.settings.specs import Grammar

grammar = Grammar(registry, HeadConfig, "softmax", modifiers)


def parse_head(spec: str | Mapping[str, Any] | HeadConfig) -> HeadConfig:
    """The typed config of a head spec, of a config written out in full, or of a config as it is.

    >>> parse_head("MoS:5+Mi").model_dump(exclude_defaults=True)
    {'components': 5, 'mi': {}}
    >>> parse_head({"head": "mos:5", "bias": False}).components
    5
    >>> parse_head({"head": "mos", "componets": 3})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.settings.config.SettingsError: head.componets: unknown key. Did you mean 'components'? Known: bias, ...
    >>> parse_head("mos:0")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.settings.config.SettingsError: head spec 'mos:0': components must be at least 1 (0 given). K, ...

    Raises:
        ValueError: An unknown name (with the nearest known one), a modifier that the head does not take, arguments
            that do not fit.
    """
    return grammar.parse(spec)


def head_spec(config: HeadConfig) -> str:
    """The shortest spec that this config comes back from, without what building a head for a model has filled in.

    >>> head_spec(parse_head("mos:3+mi:1x3"))
    'mos:3+mi:1x3'
    >>> head_spec(parse_head("Softmax+Mi+CPR:100,20"))
    'softmax+cpr:20,100+mi'
    >>> head_spec(parse_head({"head": "mos", "components": 5, "bias": False, "mi": {"expansion": 2}}))
    'mos:5,bias=false+mi:expansion=2'
    """
    return grammar.write(config.unbuilt())


def build_head(config: HeadConfig, dimensions: Dimensions) -> Head:
    """The head of a config.

    Raises:
        ValueError: It cannot sit on such a model, or its parameters would not fit into memory.
    """
    return built(lambda: registry.get(config.head)(config, dimensions), f"head '{head_spec(config)}'")
