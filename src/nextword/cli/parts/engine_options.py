"""How the runs of a comparison are carried out, as options of a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from nextword.settings.config import Settings

if TYPE_CHECKING:
    from nextword.experiments.comparison.engines.engine import Engine


class EngineOptions(Settings):
    """What carries out the runs, and what each of them takes."""

    engine: str = "sequential"
    """sequential: one run after another. ray: side by side, as tasks of Ray on this machine or a cluster."""
    cpus: int | None = Field(default=None, ge=1)
    """Cores that each run takes with --engine ray; by default the recipe's threads, else 1."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs that each run takes with --engine ray, for example 0.5; by default 1 where there are any."""

    def asked_for(self) -> Engine:
        """The engine.

        Raises:
            ValueError: There is none of this name.
        """
        from nextword.experiments.comparison.engines.engine import Resources, registry

        return registry.get(self.engine)(Resources(self.cpus, self.gpus))
