"""Check a comparison before training. Every method is attached once, so that a mistake is found within seconds."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nextword.conditioning.auxiliary_encoder import expect_encoder
from nextword.evaluation.all_systems import HUMAN
from nextword.evaluation.metrics.metric import parse_metric
from nextword.evaluation.metrics.metric import registry as metrics
from nextword.evaluation.metrics.unigram_kl import TEST
from nextword.evaluation.sample_passes import not_installed
from nextword.experiments.comparison.comparison_settings import (
    CompareConfig,
    build_task,
    common_settings,
    given_settings,
    stage_settings,
)
from nextword.experiments.comparison.method import TEST_TIME_OBJECTIVE, Method
from nextword.experiments.tasks.head_counts import with_counts
from nextword.experiments.training.learning_rates import GROUPS, harsh_rates
from nextword.experiments.training.stored_training import expect_trainable
from nextword.experiments.training.trainable import trained_group_names
from nextword.experiments.training.trainer_arguments import expect_available
from nextword.heads import parse_head
from nextword.model.attach import ObjectiveSpec, attach, attach_to_train
from nextword.model.stored_states.state_files import MANIFEST
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.runtime.shard_files import BEGUN
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nextword.experiments.tasks import Task, Texts
    from nextword.model.modeling import NextWordModel

logger = logging.getLogger(__name__)


def checked_task(config: CompareConfig) -> Task:
    """Build the task of a comparison, and run all checks that need no model. ValueError if a check fails."""
    config.expect_known_names()
    task = build_task(config)
    check_settings(config, task)
    return task


def check_settings(config: CompareConfig, task: Task) -> None:
    """Run all checks of a comparison's settings that need no model.

    Raises:
        ValueError: If a training setting is unknown, a package is missing, the task has no auxiliary text for a
            conditioner, generated texts cannot be evaluated, or ``states`` is set and a method cannot be trained from
            stored states.
    """
    common_settings(config)
    for method in all_candidates(config):
        for settings in stage_settings(method, config):
            expect_available(settings)
    if config.states is not None:
        _expect_stored_methods(config, config.states, task)
    encoder = needed_encoder(config.methods, task)
    if encoder is not None:
        expect_encoder(encoder)
    if task.writes is not None:
        _expect_measurable(task, task.writes.texts, config.methods)


def _expect_stored_methods(config: CompareConfig, states: str, task: Task) -> None:
    # the folder must be a store or empty, and no method may change the states
    folder = Path(states).expanduser()
    is_store = any((folder / name).is_file() for name in (MANIFEST, BEGUN))
    if not is_store and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"states: must be a store of states, or a folder to build one in ('{states}' is another file or has other "
            "files); name a new folder"
        )
    if task.architecture.has_encoder:
        raise ValueError(
            f"states: must be of a decoder-only model (task '{task.name}' has an encoder-decoder one); compare without "
            f"{named('states')}"
        )
    for method in all_candidates(config):
        stages = stage_settings(method, config) or [common_settings(config)]
        try:
            if method.from_scratch:
                raise ValueError("from_scratch: must be left out, because states are of the initial checkpoint")
            if method.conditioner is not None:
                raise ValueError("conditioner: must be left out if a comparison trains from stored states")
            for objective, settings in zip(method.objectives, stages, strict=True):
                expect_trainable(method.model_copy(update={"objective": objective}), settings)
        except ValueError as problem:
            without = f"or compare without {named('states')}"
            raise ValueError(f"method '{method.title}': {problem}; leave this method out, {without}") from problem


AGAINST = "against"
"""Setting of a metric that names the text to compare with. The value ``test`` means the test data."""


def asks_for_test_data(metric: str | Mapping[str, Any]) -> bool:
    """Whether ``metric`` compares generated texts with the whole test data of the task (``against = "test"``)."""
    return getattr(parse_metric(metric), AGAINST, None) == TEST


def _expect_measurable(task: Task, texts: Texts, methods: Iterable[Method]) -> None:
    if any(method.title == HUMAN for method in methods):
        raise ValueError(f"a method is called '{HUMAN}', which is the row of the human references; rename it")
    for one in texts.metrics:
        metric = parse_metric(one).metric
        if asks_for_test_data(one) and task.data.test_text() is None:
            raise ValueError(
                f"{metric}.{AGAINST}: task '{task.name}' has no test text to compare with as a whole; take the "
                f"references ('{metric}'), or name a file"
            )
        if (lack := not_installed(metrics.get(metric))) is not None:
            raise ValueError(f"{metric} {lack}")


def all_candidates(config: CompareConfig) -> list[Method]:
    """The methods of a comparison. A method with a search is replaced by one method per combination of settings."""
    return [candidate for method in config.methods for candidate in method.candidates]


def most_layers(config: CompareConfig) -> int:
    """Number of layers whose hidden states a comparison must store: the most that a method reads, but at least 1."""
    return max(1, *map(read_layers, all_candidates(config)))


def read_layers(method: Method) -> int:
    """Number of layers whose hidden states the method's head with ``+mi`` reads (decoder-only); 0 without ``+mi``."""
    read = [getattr(parse_head(head), "mi", None) for head in (method.head, method.trained_head)]
    return max(0 if one is None else one.layers or 3 for one in read)


def needed_encoder(methods: Iterable[Method], task: Task) -> str | None:
    """Folder or hub name of the encoder of the task's auxiliary texts. ``None`` if no method has a conditioner.

    Raises:
        ValueError: If a method has a conditioner, but the task has no auxiliary text or encoder.
    """
    conditioned = next((method for method in methods if method.conditioner is not None), None)
    if conditioned is None:
        return None
    encoder = task.data.encoder()
    if encoder is None:
        raise ValueError(
            f"method '{conditioned.title}': conditioner: the data of task '{task.name}' has no auxiliary text "
            "that could condition it"
        )
    return encoder


def check_methods(backbone: PreTrainedModel, config: CompareConfig, task: Task, counts: Path | None) -> None:
    """Build each method on a copy of ``backbone``. A method with generation arguments also generates two tokens.

    Raises:
        ValueError: If a method does not fit the backbone, ``generate`` rejects an argument, or a learning rate names an
            unknown group of parameters.
    """
    encoder = needed_encoder(config.methods, task)
    asked: set[str] = set()
    trained: dict[str, None] = {}
    harsh: dict[str, None] = {}
    for method in all_candidates(config):
        stages, given = stage_settings(method, config), given_settings(method, config)
        try:
            for number, objective in enumerate(method.objectives):
                model = build_method(
                    copy.deepcopy(backbone), method, objective, encoder, counts, config.is_fine_tuned(method)
                )
                for settings in stages[number : number + 1]:
                    asked |= given[number].get("learning_rates", {}).keys()
                    groups = trained_group_names(model, settings)
                    trained |= dict.fromkeys(groups)
                    if config.start.is_pretrained and not method.from_scratch:
                        harsh |= dict.fromkeys(harsh_rates(settings, groups))
            if method.trained_as:
                model = attach(model, with_counts(method.head, counts), TEST_TIME_OBJECTIVE)
            if method.generation and not isinstance(backbone, StoredBackbone):  # a stored backbone cannot generate
                _check_generation(model, method, task)
        except ValueError as problem:
            raise ValueError(f"method '{method.title}': {problem}") from problem
    for name in sorted(asked - trained.keys()):
        if name not in GROUPS:
            near = did_you_mean(name, GROUPS)
            raise ValueError(f"training.learning_rates.{name}: no part of a model.{near} Known: {', '.join(GROUPS)}.")
        logger.warning("training.learning_rates.%s has no effect: no method here trains that part", name)
    for line in list(harsh)[:1]:
        logger.warning("%s", line)


def build_method(
    backbone: PreTrainedModel,
    method: Method,
    objective: ObjectiveSpec,
    encoder: str | None,
    counts: Path | None,
    pretrained: bool,
    normalize: bool = True,
) -> Any:
    """Make the model with which ``method`` begins the training stage with ``objective``, on ``backbone``.

    ``counts`` is the file of token counts for a head that needs them and names no file. If the backbone is
    ``pretrained``, the head has its fine-tuning defaults instead of the published ones. ``normalize`` is whether a head
    with ``+mi`` normalises the hidden states that it reads, if its spec does not say.
    """
    head = with_counts(method.trained_head, counts)
    followed: dict[str, Any] = {"conditioner": method.conditioner, "encoder": encoder if method.conditioner else None}
    if not method.trained:
        return attach(backbone, head, objective, **followed)
    begun = head if normalize else parse_head(head).with_raw_states()
    return attach_to_train(backbone, begun, objective, **followed, pretrained=pretrained)


def _check_generation(model: NextWordModel, method: Method, task: Task) -> None:
    # generates two tokens, because only generate knows which arguments it accepts
    if task.writes is None:
        raise ValueError("generation: must be left out, because this task generates no texts")
    prompt = torch.zeros(1, 1, dtype=torch.long)
    arguments = {"attention_mask": prompt + 1}
    if method.conditioner is not None:
        arguments |= {"aux_input_ids": prompt, "aux_attention_mask": prompt + 1}
        arguments |= {"source_ids": prompt, "source_positions": prompt} if model.next_word_head.reads_source else {}
    try:
        model.eval().generate(prompt, **arguments, max_new_tokens=2, **method.generation)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"generation: {problem}") from problem
