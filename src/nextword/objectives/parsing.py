"""Objective specs: ``mle``, ``face:opr,cp``, ``unlikelihood+seq:0.5``, to a typed config and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.objectives.loss import modifiers
from nextword.objectives.objective import ObjectiveConfig, registry
from nextword.settings.specs import Grammar

grammar = Grammar(registry, ObjectiveConfig, "mle", modifiers)


def parse_objective(spec: str | Mapping[str, Any] | ObjectiveConfig) -> ObjectiveConfig:
    """The typed config of an objective spec, of a config written out in full, or of a config as it is.

    >>> parse_objective("mle+seq:0.25").seq.rate
    0.25
    >>> parse_objective("mle+sec")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: objective spec 'mle+sec': unknown modifier 'sec'. Did you mean 'seq'? Known: +seq, +seq:RATE, ...

    Raises:
        ValueError: Unknown name, unknown key or arguments that do not fit.
    """
    return grammar.parse(spec)


def objective_spec(config: ObjectiveConfig) -> str:
    """The shortest spec that this config comes back from.

    >>> objective_spec(parse_objective("Face:OPR+seq:0.5,25x50"))
    'face:opr+seq:25x50'
    """
    return grammar.write(config)
