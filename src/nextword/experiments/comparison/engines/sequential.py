"""One run after another in this process: what a comparison does where no other engine is asked for."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.engines.attempt import attempted
from nextword.experiments.comparison.engines.engine import Engine, Outcome, Resources, registry
from nextword.experiments.comparison.one_run import Run, Setting
from nextword.settings.setting_names import named


@registry.register("sequential")
class Sequential(Engine):
    """Every run has the whole machine."""

    def expect(self, config: CompareConfig) -> None:
        """Nothing to share out."""
        if self.resources != Resources():
            raise ValueError(
                f"{named('cpus')}, {named('gpus')}: must stand with {named('engine', 'ray')}; without it each run has "
                "the whole machine"
            )

    def outcomes(self, runs: Sequence[Run], setting: Setting) -> Generator[tuple[Run, Outcome], None, None]:
        """In their order."""
        for run in runs:
            yield run, attempted(run, setting)
