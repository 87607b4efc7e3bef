"""Judges that a user has: measured of the texts of every experiment whose recipe at the paper's scale asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nextword.evaluation.metrics.metric import parse_metric
from nextword.experiments.comparison.recipe import configured, read
from nextword.experiments.reproduction.experiment import Experiment
from nextword.settings.config import validated

if TYPE_CHECKING:
    from nextword.experiments.comparison.comparison_settings import CompareConfig


def with_judges(config: CompareConfig, experiment: Experiment, judges: Sequence[str]) -> CompareConfig:
    """The comparison, which also measures its texts with those judges that the paper has for it.

    Args:
        config: The comparison.
        experiment: What it is.
        judges: Specs of metrics: ``"factcc:model=FOLDER"``.

    Raises:
        ValueError: No such metric, or a setting that it does not have.
    """
    wanted = [judge for judge in judges if parse_metric(judge).metric in _papers_metrics(experiment)]
    if not wanted:
        return config
    settings = config.task_settings
    generation: Any = settings.get("generation") or {}
    own = {parse_metric(judge).metric for judge in wanted}
    others = [one for one in _metrics(config) if parse_metric(one).metric not in own]
    changed = {**settings, "generation": {**generation, "metrics": [*others, *wanted]}}
    return config.model_copy(update={"task_settings": changed})


def _papers_metrics(experiment: Experiment) -> set[str]:
    """What the recipe at the paper's scale measures of texts."""
    if experiment.paper is None:
        return set()
    paper = configured(read(experiment.paper.recipe), experiment.paper.overrides)
    return {parse_metric(one).metric for one in _metrics(paper)}


def _metrics(config: CompareConfig) -> list[str | dict[str, Any]]:
    """The metrics of texts of a comparison; none where its task writes none."""
    from nextword.experiments.tasks import registry

    fields = registry.get(config.task).Config.model_fields
    if "generation" not in fields:
        return []
    kind: Any = fields["generation"].annotation
    settings: Any = config.task_settings.get("generation") or {}
    return list(getattr(validated(kind, settings, "task.generation"), "metrics", []))
