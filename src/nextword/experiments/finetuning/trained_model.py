"""The trained model: what it measures, what the checker says of it, and the folder that it is saved in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.checking.checker import check
from nextword.experiments.finetuning.data_kinds import told_as_data
from nextword.experiments.finetuning.train_config import TrainConfig
from nextword.experiments.tasks import Task
from nextword.experiments.training.outcome import TrainingOutcome
from nextword.experiments.training.settings import TrainingSettings
from nextword.heads import head_spec
from nextword.model.card import CardData, CardFacts, CardResult
from nextword.model.card.card_facts import hub_name
from nextword.model.saving import save_model_folder
from nextword.results.records import Environment
from nextword.results.records.training_results import CheckedProperty, TrainingResults
from nextword.results.report.parts.measures import measure
from nextword.runtime.pretrained import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHECKED_LENGTHS = (1, 6)
"""Tokens of the random texts that a trained model is checked on; ``nextword check`` takes longer ones too."""


def measured_on_test_part(
    model: Any, tokenizer: PreTrainedTokenizerBase, task: Task, progress: Callable[[float], None]
) -> Any:
    """All that the data's task measures of a model."""
    with told_as_data(), torch.no_grad():
        return task.measures.evaluate(model.eval(), tokenizer, progress).finite()


def checked(model: Any) -> list[CheckedProperty]:
    """What the checker says of each property."""
    return [
        CheckedProperty.model_validate(
            {"name": row.name, "verdict": row.verdict, "explanation": None if row.passed else row.explain()}
        )
        for row in check(model, lengths=CHECKED_LENGTHS).rows
    ]


def results_of(
    config: TrainConfig,
    task: Task,
    settings: TrainingSettings,
    model: Any,
    outcome: TrainingOutcome,
    evaluation: Any,
    command: str,
) -> TrainingResults:
    """The record of a finished training."""
    return TrainingResults(
        command=command,
        settings=config.model_dump(mode="json"),
        head=head_spec(model.next_word_head.config),
        objective=config.objective_spec,
        conditioner=config.conditioner_spec,
        data={"task": task.name, **task.data.describe(), **task.data.counts()},
        training=settings.model_dump(mode="json"),
        evaluation=evaluation,
        checks=checked(model),
        cost=outcome.cost,
        curve=outcome.curve,
        validation_curve=outcome.validation_curve,
        best_step=outcome.best_step,
        facts=model.next_word_head.facts(),
        environment=Environment.collect(),
    )


def save_trained(
    model: Any, tokenizer: PreTrainedTokenizerBase, task: Task, config: TrainConfig, results: TrainingResults, out: Path
) -> None:
    """Saves the model with its tokenizers and its card."""
    encoder = task.data.encoder() if model.conditioner is not None else None
    auxiliary = None if encoder is None else load_tokenizer(encoder, "encoder")
    save_model_folder(model.cpu(), tokenizer, out, _card(config, results), auxiliary)


def _card(config: TrainConfig, results: TrainingResults) -> CardFacts:
    path = str(config.data["path"])
    data = CardData(name=str(results.data.get("source", Path(path).name)), hub_name=hub_name(path))
    numbers = results.evaluation.metrics
    failed = [one for one in results.checks if one.verdict == "FAILED"]
    passed = sum(one.verdict == "passed" for one in results.checks)
    verdict = f"{passed} properties hold on random texts, {len(failed)} do not"
    return CardFacts(
        base_model=None if config.is_small else config.model,
        data=(data,),
        command=results.command,
        settings=results.training,
        results=tuple(
            CardResult(metric=name, data=data, measured=value, title=measure(name).title)
            for name, value in numbers.items()
        ),
        checks=(verdict, *(str(one.explanation) for one in failed)),
    )
