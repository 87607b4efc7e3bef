"""What the trainings of a comparison are: how many, their steps and tokens, and the products that these take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nextword.experiments.comparison.comparison_settings import CompareConfig, stage_settings
from nextword.experiments.comparison.method import Method
from nextword.experiments.training.settings import TrainingSettings

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task

Exactness = Literal["exactly", "at most", "about"]


@dataclass(frozen=True)
class RowLength:
    """Tokens of one training row.

    Attributes:
        tokens: How many, of source and target together.
        exactness: How sure that is.
    """

    tokens: int
    exactness: Exactness


@dataclass(frozen=True)
class PlannedTraining:
    """One stage of training a method, which several methods may share.

    Attributes:
        name: Of its folder, which tells trainings apart; without the seed.
        method: Whose it is.
        stage: 0 for the first, 1 for the second.
        settings: How it is trained.
        runs: Seeds with which it is.
        steps: Optimiser steps; None: it goes by epochs of data whose size is not known.
        tokens: Of all its steps, with one seed; None: not known.
    """

    name: str
    method: Method
    stage: int
    settings: TrainingSettings
    runs: int
    steps: int | None
    tokens: int | None


def planned_trainings(config: CompareConfig, rows: int | None, length: RowLength | None) -> list[PlannedTraining]:
    """Every training of a comparison once, those of searches among them.

    Args:
        config: The comparison.
        rows: Training rows; None: not known.
        length: Of one of them; None: not known.
    """
    seeds_of: dict[str, set[int]] = {}
    plans: dict[str, PlannedTraining] = {}
    for method in config.methods:
        for place, candidate in enumerate(method.candidates):
            # of a search each combination is trained once, and one of them with the other seeds too
            searched = {config.seeds[0] if method.search_seed is None else method.search_seed}
            seeds = set(config.seeds) if place == 0 else searched
            stages = stage_settings(candidate, config)
            for stage, (name, settings) in enumerate(zip(candidate.stages, stages, strict=False)):
                seeds_of.setdefault(name, set()).update(seeds | searched if method.search else seeds)
                steps = steps_of(settings, rows)
                tokens = None if steps is None or length is None else steps * tokens_of_a_step(settings, length)
                plans[name] = PlannedTraining(name, candidate, stage, settings, len(seeds_of[name]), steps, tokens)
    return list(plans.values())


def steps_of(settings: TrainingSettings, rows: int | None) -> int | None:
    """Optimiser steps of one training.

    >>> steps_of(TrainingSettings(epochs=2, batch_size=8), 20)
    6
    """
    if settings.steps is not None:
        return settings.steps
    if rows is None or settings.epochs is None:
        return None
    batches = -(-rows // settings.batch_size)
    return max(1, round(settings.epochs * -(-batches // settings.gradient_accumulation_steps)))


def tokens_of_a_step(settings: TrainingSettings, length: RowLength) -> int:
    """Tokens that a step reads."""
    return settings.batch_size * settings.gradient_accumulation_steps * length.tokens


def row_length(settings: Mapping[str, Any], task: Task | None = None) -> RowLength | None:
    """Tokens of a training row by a task's settings, or else by its own tokenizer on the first rows.

    >>> row_length({"block": 256}), row_length({"max_source_tokens": 500, "max_target_tokens": 60})
    (RowLength(tokens=256, exactness='exactly'), RowLength(tokens=560, exactness='at most'))
    """
    if "block" in settings:
        return RowLength(settings["block"], "exactly")
    if "length" in settings:
        return RowLength(settings["length"], "exactly")
    if "max_source_tokens" in settings:
        return RowLength(settings["max_source_tokens"] + settings["max_target_tokens"], "at most")
    if task is None:
        return None
    rows = task.data.training(task.start.tokenizer())
    lengths = [len(rows[place]["input_ids"]) for place in range(min(len(rows), 200))]
    return RowLength(max(1, round(sum(lengths) / len(lengths))), "about")


def training_rows(task: Task | None) -> int | None:
    """Training rows of tasks whose rows are pairs; None: not known without encoding."""
    described = {} if task is None else task.data.describe()
    found = [described[name] for name in ("train_pairs", "train_sentences") if isinstance(described.get(name), int)]
    return int(found[0]) if found else None


def products(parameters: int, trained: int, tokens: int) -> float:
    """Floating-point operations of a training.

    For a token 2 N in the forward pass, 2 N for the gradients of states, and 2 for each weight that is trained: 6 N
    where all are.

    >>> products(100, 100, 10)
    6000.0
    """
    return float(4 * parameters + 2 * trained) * tokens
