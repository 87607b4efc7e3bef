"""What an architecture can do by itself: nothing else is asked of it with a head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from architectures.abilities import ABILITIES
from architectures.one_line import one_line
from architectures.probes import Probe
from nextword.checking.property import EXACT, LIMIT, SHARE_OF_ROUNDING

TOLERANCE, MOST = EXACT[torch.float32], LIMIT[torch.float32]
"""As ``nw.check`` has them: what passes, and what no rounding excuses."""


@dataclass(frozen=True)
class Bare:
    """What the model does without a head.

    Args:
        deviations: Of the abilities that it has.
        unable: Ability to what goes wrong.
    """

    deviations: dict[str, float] = field(default_factory=dict)
    unable: dict[str, str] = field(default_factory=dict)

    def allowed(self, ability: str) -> float:
        """How far a head may deviate: it adds up and divides what rounding left in the model."""
        return min(TOLERANCE + SHARE_OF_ROUNDING * self.deviations[ability], MOST)


def bare_abilities(model: Any, probe: Probe) -> Bare:
    """Tries every ability."""
    found = Bare()
    for name, ability in ABILITIES.items():
        try:
            worst = ability(model, probe)
        except Exception as fault:  # whatever transformers raises: the model cannot do it
            found.unable[name] = one_line(fault)
            continue
        if worst <= MOST:
            found.deviations[name] = worst
        else:
            found.unable[name] = f"deviates by {worst:.2g}"
    return found
