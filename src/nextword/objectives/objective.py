"""The contract of an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from nextword.config import SpecSettings, validated
from nextword.context import Context
from nextword.heads.head import Head
from nextword.registry import Registry


class ObjectiveConfig(SpecSettings):
    """Settings that every objective has."""

    objective: str
    """Registered name of the objective."""


@dataclass(frozen=True)
class Loss:
    """A loss before division: a sum over tokens and how many they are.

    The division is done once, over all accumulation steps and processes, never as a mean of means.

    Args:
        total: Sum over the tokens, in nats.
        tokens: Number of tokens that count.
        parts: Detached terms for the log, each a mean.
    """

    total: Float[Tensor, ""]
    tokens: int
    parts: dict[str, Tensor] = field(default_factory=dict)


class Objective(ABC):
    """Asks a head's distribution for the probability of the targets and makes a loss of it.

    Args:
        config: The objective's settings.
    """

    Config: ClassVar[type[ObjectiveConfig]]

    def __init__(self, config: ObjectiveConfig) -> None:
        self.config: Any = config

    def check(self, head: Head) -> None:  # noqa: B027  (any head will do unless an objective says otherwise)
        """Raises ValueError, with the reason, where this objective makes no sense with ``head``."""

    @abstractmethod
    def __call__(self, head: Head, context: Context, targets: Int[Tensor, "N"]) -> Loss:
        """The loss of ``targets``, one at each position of the context."""


registry: Registry[type[Objective]] = Registry("objective")
"""All objectives by name."""


def parse_objective(spec: str | Mapping[str, Any] | ObjectiveConfig) -> ObjectiveConfig:
    """The typed config of an objective spec (``mle``, ``mle:labels``), of a config written out, or of one as it is.

    Raises:
        ValueError: Unknown name, unknown key or arguments that do not fit.
    """
    if isinstance(spec, ObjectiveConfig):
        return spec
    if isinstance(spec, str):
        name, colon, rest = spec.strip().lower().partition(":")
        config = registry.get(name).Config
        try:
            values = {"objective": name, **config.from_arguments(rest.split(",") if colon else [])}
        except ValueError as fault:
            raise ValueError(f"objective spec '{spec}': {fault}") from None
        return validated(config, values, f"objective spec '{spec}'")
    if "objective" not in spec:
        raise ValueError(f"objective: missing; it names the objective. Known: {', '.join(registry.names())}.")
    return validated(registry.get(str(spec["objective"])).Config, spec, "objective")


def objective_spec(config: ObjectiveConfig) -> str:
    """The shortest spec that names this config; settings that a spec cannot name are left out."""
    arguments = config.arguments()
    return f"{config.objective}:{','.join(arguments)}" if arguments else config.objective
