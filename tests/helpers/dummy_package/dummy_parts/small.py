"""A task."""

from __future__ import annotations

from nextword.experiments.tasks import registry
from nextword.experiments.tasks.ambiguous import Ambiguous


@registry.register("small")
class Small(Ambiguous):
    """The ambiguous prompts once more, under another name."""

    name = "small"
