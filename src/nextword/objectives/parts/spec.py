"""Objective specs: ``mle``, ``face:opr,cp``, ``unlikelihood+seq:0.5``, to a typed config and back.

A spec is an objective with its arguments, then modifiers: ``objective[:argument,...][+modifier[:argument,...]]...``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nextword.config import read_term, validated, write_term
from nextword.objectives.objective import ObjectiveConfig, registry
from nextword.objectives.parts.modifiers import modifiers


def parse_objective(spec: str | Mapping[str, Any] | ObjectiveConfig) -> ObjectiveConfig:
    """The typed config of an objective spec, of a config written out in full, or of a config as it is.

    >>> parse_objective("mle+seq:0.25").seq.rate
    0.25
    >>> parse_objective("mle+sec")
    Traceback (most recent call last):
    ...
    ValueError: objective spec 'mle+sec': unknown objective modifier 'sec'. Did you mean 'seq'? Known: seq.

    Raises:
        ValueError: Unknown name, unknown key or arguments that do not fit.
    """
    if isinstance(spec, ObjectiveConfig):
        return spec
    if isinstance(spec, str):
        return _from_text(spec)
    if "objective" not in spec:
        raise ValueError(f"objective: missing; it names the objective. Known: {', '.join(registry.names())}.")
    return validated(registry.get(str(spec["objective"])).Config, spec, "objective")


def _from_text(text: str) -> ObjectiveConfig:
    (name, arguments), *rest = map(read_term, text.lower().split("+"))
    config = registry.get(name).Config
    try:
        values = {"objective": name, **config.from_arguments(arguments)}
        for modifier_name, modifier_arguments in rest:
            modifier = modifiers.get(modifier_name)
            if modifier.field in values:
                raise ValueError(f"'+{modifier_name}' stands there twice")
            values[modifier.field] = modifier.parse(modifier_name, modifier_arguments)
    except ValueError as fault:
        raise ValueError(f"objective spec '{text}': {fault}") from None
    return validated(config, values, f"objective spec '{text}'")


def objective_spec(config: ObjectiveConfig) -> str:
    """The shortest spec that names this config; settings that a spec cannot name are left out.

    >>> objective_spec(parse_objective("Face:OPR+seq:0.5,25x50"))
    'face:opr+seq:25x50'
    """
    parts = [write_term(config.objective, config.arguments())]
    for field in modifiers.names():
        written = modifiers.get(field).write(getattr(config, field))
        if written is not None:
            parts.append(write_term(*written))
    return "+".join(parts)
