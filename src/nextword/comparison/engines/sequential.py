"""One run after another in this process: what a comparison does where no other engine is asked for."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from nextword.comparison.comparison_settings import CompareConfig
from nextword.comparison.engines.attempt import attempted
from nextword.comparison.engines.engine import Engine, Outcome, Resources, registry
from nextword.comparison.one_run import Run, Setting
from nextword.setting_names import named


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
