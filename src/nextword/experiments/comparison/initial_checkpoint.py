"""The initial checkpoint: one checkpoint on disk to which every method's head is attached."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field, JsonValue
from transformers import AutoConfig, AutoTokenizer, set_seed

from nextword.conditioning.auxiliary_encoder import comparable_fingerprint
from nextword.experiments.comparison.comparison_settings import RANDOM, TRAINED, CompareConfig
from nextword.experiments.comparison.folder import stored
from nextword.experiments.comparison.method import Method
from nextword.experiments.comparison.preflight import (
    asks_for_test_data,
    build_method,
    check_methods,
    most_layers,
    needed_encoder,
)
from nextword.experiments.tasks.head_counts import (
    HeadSpec,
    counts_file,
    expect_tokenizer,
    wants_counts,
    with_counts,
)
from nextword.experiments.tasks.task import Architecture, Pretraining, architecture_of, saved_model
from nextword.experiments.tasks.tokenizers import add_tokens
from nextword.experiments.training.loss_curve import DivergedError, TrainingOutcome
from nextword.experiments.training.one_training import fit
from nextword.experiments.training.resume import weights_problem
from nextword.experiments.training.settings import merged
from nextword.experiments.training.sharding import whole_model
from nextword.experiments.training.stored_training import dropout_rates
from nextword.functional.frequency import TokenCounts, tokenizer_fingerprint
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.text_tokens import token_ids
from nextword.inference.states import StatesSettings, build_states
from nextword.model.attach import ObjectiveSpec, attach, load
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.results.records import MetricValue, Record
from nextword.runtime.pretrained import load_tokenizer
from nextword.runtime.progress import Watcher
from nextword.runtime.weights import MemoryMappedModel
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from nextword.experiments.tasks import Task
    from nextword.model.modeling import NextWordModel


logger = logging.getLogger(__name__)

PRECISION = torch.float32
"""Precision of every initial checkpoint, even if the named model has another precision."""

PLAIN_HEAD = "softmax"
"""Head of the task's small model during its own training."""

MOST_ROUNDS = 4
"""Maximum number of training rounds of the small model. After these rounds the model is used even if it has not learned
enough."""


class InitialCheckpointRecord(Record):
    """Record of the initial checkpoint: origin, checksum and size."""

    source: str
    """Folder or hub name, or a description of the model's training."""
    sha256: str
    """Checksum over all weight files, in the order of their names."""
    parameters: int
    """Number of parameters. Tied parameters count once."""
    fingerprint: str | None = None
    """Fingerprint of the weights, as in stores of states; None in records of earlier versions."""
    training: TrainingOutcome | None = None
    """Record of the training, if the checkpoint was trained here."""
    probe: dict[str, MetricValue] = Field(default={})
    """The task's measurements of the checkpoint."""

    def summary(self) -> dict[str, JsonValue]:
        """Origin, checksum, size, training and measurements of the checkpoint, for ``results.json``."""
        said: dict[str, JsonValue] = {"model": self.source, "sha256": self.sha256, "parameters": self.parameters}
        if self.training is not None and self.training.curve:
            said |= {"steps": self.training.curve[-1].step, "training_loss": self.training.curve[-1].loss}
        return said | {name: value.model_dump(mode="json") for name, value in self.probe.items()}


@dataclass(frozen=True)
class InitialCheckpoint:
    """An initial checkpoint that is complete on disk."""

    folder: Path
    record: InitialCheckpointRecord
    tokenizer: PreTrainedTokenizerBase
    architecture: Architecture
    counts: Path | None = None
    """Token counts of the training text, if a head needs them or the task generates texts."""
    test_counts: Path | None = None
    """Token counts of the test text, if a metric needs them."""
    encoder: str | None = None
    """Folder or hub name of the encoder of auxiliary texts, if a method has a conditioner."""
    pretrained: bool = False
    """Whether the checkpoint is a pretrained model that is fine-tuned."""
    normalize: bool = True
    """Default for whether ``+mi`` normalises hidden states of a pretrained model; a spec may set it."""

    def backbone(self) -> PreTrainedModel:
        """Load a new copy of the checkpoint's model, in float32."""
        return _plain_model(str(self.folder / "model"), self.architecture)

    def filled(self, head: HeadSpec) -> HeadSpec:
        """``head`` with the counts of the training text, if the head needs token counts and names no file."""
        return with_counts(head, self.counts)

    def attached(self, method: Method, seed: int) -> Any:
        """Make the model with which ``method`` begins its training. Its new parameters depend only on ``seed``."""
        if method.from_scratch:
            set_seed(seed)
            backbone = self.architecture.new(AutoConfig.from_pretrained(self.folder / "model", dtype=PRECISION))
        else:
            backbone = self.backbone()
        set_seed(seed)
        pretrained = self.pretrained and not method.from_scratch
        return build_method(backbone, method, method.objective, self.encoder, self.counts, pretrained, self.normalize)

    def parameters(self, model: NextWordModel) -> int:
        """Number of parameters of ``model``, which begins from the checkpoint. Tied parameters count once."""
        return sum(parameter.numel() for parameter in model.parameters())

    def save(self, model: NextWordModel, folder: Path) -> None:
        """Writes a trained model into ``folder``, as ``save_pretrained`` does."""
        model.save_pretrained(folder)

    def saved(self, folder: Path, objective: ObjectiveSpec | None = None) -> NextWordModel:
        """Loads a trained model from ``folder``, to train it further or to compute its losses."""
        return load(folder, objective=objective)

    def measured(self, folder: Path, task: Task) -> NextWordModel:
        """Loads a trained model from ``folder`` in a form that ``task`` can measure."""
        return load(folder)

    def whole(self, model: NextWordModel) -> NextWordModel:
        """Return ``model`` with its whole backbone, which can read any text. Here, that is ``model`` itself."""
        return model

    @property
    def stored(self) -> dict[str, JsonValue] | None:
        """Facts about the stored hidden states, for the record of a run. None if training does not use such states."""
        return None


def prepare_start(
    config: CompareConfig, task: Task, folder: Path, stages: Watcher, unfinished: bool = True
) -> InitialCheckpoint:
    """Return the initial checkpoint in ``folder``. If it is incomplete, copy the named model or train the small model.

    Before any training, every method is attached once, so that a wrong spec is found within seconds. If the checkpoint
    was already complete, this is done only if ``unfinished`` is true, which means that some run is not finished.

    Raises:
        ValueError: If a head or objective does not exist or does not fit, the model is not a plain model of the task's
            architecture, or the weights of a complete checkpoint have changed.
    """
    complete = done = _complete_record(folder)
    if done is None:
        shutil.rmtree(folder / "model", ignore_errors=True)
        for name in (COUNTS, TEST_COUNTS):
            (folder / name).unlink(missing_ok=True)  # the file may be of another tokenizer
        done = _made(config, task, folder, stages)
        done.save(folder / "start.json")
        shutil.rmtree(folder / "training", ignore_errors=True)
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    counts = needed_counts(config.methods, task, tokenizer, folder / COUNTS, stages)
    if complete is not None and unfinished:
        check_methods(_plain_model(str(folder / "model"), task.architecture), config, task, counts)
    return InitialCheckpoint(
        folder=folder,
        record=done,
        tokenizer=tokenizer,
        architecture=task.architecture,
        counts=counts,
        test_counts=needed_test_counts(task, tokenizer, folder / TEST_COUNTS, stages),
        encoder=needed_encoder(config.methods, task),
        pretrained=config.fine_tuning is not None,
        normalize=config.fine_tuning is not None and bool(config.fine_tuning.normalize),
    )


def _complete_record(folder: Path) -> InitialCheckpointRecord | None:
    record = stored(InitialCheckpointRecord, folder / "start.json", "the start is made again")
    if record is None:
        return None
    if weights_problem(folder / "model") or _sha256(folder / "model") != record.sha256:
        raise ValueError(
            f"{folder / 'model'} is not the start that {folder / 'start.json'} describes: its weights changed. "
            f"Finished runs began from the other one; choose another folder ({named('out')}) or delete this one."
        )
    return record


def _made(config: CompareConfig, task: Task, folder: Path, stages: Watcher) -> InitialCheckpointRecord:
    with stages("start", "loading" if config.start.model else "data"):
        begun = InitialModel(config, task, folder / "training")
        backbone, tokenizer, pretraining = begun.backbone(), begun.tokenizer, begun.pretraining
    counts = needed_counts(config.methods, task, tokenizer, folder / COUNTS, stages)
    if config.states is not None:
        expect_no_dropout(backbone)
    with tempfile.TemporaryDirectory() as scratch:
        check_methods(_to_check(backbone, tokenizer, config, Path(scratch)), config, task, counts)
    if pretraining is None:
        with stages("start", "copying"):
            _save(backbone, tokenizer, folder)
        return _record_of(str(config.start.model), backbone, tokenizer, task, folder)
    if {**pretraining.settings, **config.start.training}.get("steps") == 0:
        _save(backbone, tokenizer, folder)
        return _record_of(f"{RANDOM} {config.task}", backbone, tokenizer, task, folder)
    settings = merged(pretraining.settings, config.start.training, "start.training")
    set_seed(config.start.seed)
    model = attach(backbone, PLAIN_HEAD)
    done: TrainingOutcome | None = None
    for number in range(MOST_ROUNDS):
        round_folder, seed = folder / "training" / str(number), config.start.seed + number
        with stages("start", "training" if number == 0 else f"training, round {number + 1}") as advanced:
            try:
                rows = pretraining.dataset
                outcome = fit(model.train(), rows, settings, seed=seed, folder=round_folder, progress=advanced)
            except DivergedError as problem:
                shutil.rmtree(folder / "training")  # it cannot be continued, and the next call may change the settings
                raise ValueError(f"start: {problem}; give a smaller start.training.learning_rate") from problem
        model = whole_model(model, round_folder)
        done = outcome if done is None else done.followed_by(outcome)
        _save(model.backbone, tokenizer, folder)
        record = _record_of(f"{TRAINED} {config.task}", model.backbone, tokenizer, task, folder)
        if task.start.knows_enough(record.probe):
            break
        known = ", ".join(f"{name} {value.value:.3g}" for name, value in record.probe.items())
        logger.warning("the start does not know enough yet (%s)", known)
    return record.model_copy(update={"training": done})


def _to_check(
    backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, config: CompareConfig, scratch: Path
) -> PreTrainedModel:
    # the model on which methods are checked; with stored states the backbone runs only once for all methods
    if config.states is None or any(method.generation for method in config.methods):
        return backbone
    settings = StatesSettings(layers=most_layers(config))
    try:
        build_states(OpenedModel.of(backbone, tokenizer), [], scratch, settings)
    except ValueError:
        return backbone  # so that the check names the method that does not fit
    return StoredBackbone.open(scratch)


def expect_no_dropout(backbone: PreTrainedModel) -> None:
    """Raises ValueError if a model trains with dropout, because its stored states are computed without dropout."""
    if rates := dropout_rates(backbone.config):
        raise ValueError(
            f"start: must train without dropout where states are stored ({rates} given); set these to 0 in the model's "
            "config.json or in task.start"
        )


class InitialModel:
    """The source of an initial checkpoint: the named model, or the task's small model before its training.

    Attributes:
        tokenizer: The model's tokenizer, with the tokens that the task adds.
        pretraining: Training of the task's small model; None if a model is named.

    Raises:
        ValueError: If the model does not exist, or if the task cannot use it.
    """

    def __init__(self, config: CompareConfig, task: Task, scratch: Path | None = None) -> None:
        self._config, self._task, self._scratch = config, task, scratch
        self._loaded: PreTrainedModel | None = None
        self.pretraining: Pretraining | None = None
        if config.start.model is None:
            self.tokenizer = task.start.tokenizer()
            self.pretraining = task.start.pretraining(self.tokenizer, config.start.seed)
        else:
            self._loaded, self.tokenizer = self._given()

    def backbone(self) -> PreTrainedModel:
        """Load a new copy of the model in float32. The task's small model has random weights."""
        if self.pretraining is None:
            model, self._loaded = self._loaded, None
            return model or self._given()[0]
        set_seed(self._config.start.seed)
        spread = {**self.pretraining.settings, **self._config.start.training}.get("fsdp")
        with MemoryMappedModel(self._scratch) if spread and self._scratch else nullcontext():
            backbone = self._task.architecture.new(self.pretraining.model_config)
        self._task.check(backbone.config, self.tokenizer)
        return backbone

    def _given(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        config, task = self._config, self._task
        advice = "Give the path of a folder, or fetch the model while there is a network."
        location, described = saved_model(str(config.start.model), "start.model", advice)
        source, found, wanted = str(location), architecture_of(described), task.architecture
        if found != wanted:
            raise ValueError(f"start.model: {source} is {found.name}; task '{task.name}' needs {wanted.name}")
        backbone = _plain_model(source, task.architecture)
        tokenizer = load_tokenizer(source, "start.model")
        set_seed(config.start.seed)
        add_tokens(backbone, tokenizer, task.start.tokens)
        task.check(backbone.config, tokenizer)
        return backbone, tokenizer


def _record_of(
    source: str, backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, folder: Path
) -> InitialCheckpointRecord:
    model = attach(backbone, PLAIN_HEAD)
    model.eval()
    return InitialCheckpointRecord(
        source=source,
        sha256=_sha256(folder / "model"),
        parameters=sum(parameter.numel() for parameter in backbone.parameters()),
        fingerprint=comparable_fingerprint(backbone),
        probe=task.start.probe(model, tokenizer),
    )


def _plain_model(source: str, architecture: Architecture) -> PreTrainedModel:
    model = architecture.load(source, dtype=PRECISION)
    if hasattr(model, "next_word_head"):
        raise ValueError(f"{source} already has a head of nextword; a comparison starts from a plain model")
    return model


def _save(backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    backbone.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


def _sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()


# -- How often each token occurs in a task's training data and test data, for heads and metrics that need counts.

COUNTS = "counts.npz"
"""File with the counts of the training data."""
TEST_COUNTS = "test-counts.npz"
"""File with the counts of the test data."""


def needed_counts(
    methods: Iterable[Method], task: Task, tokenizer: PreTrainedTokenizerBase, path: Path, stages: Watcher
) -> Path | None:
    """The file ``path`` with token counts of the training data, created if missing.

    ``None`` if no head needs the counts and the task generates no texts. (Metrics of texts may need counts.)

    Raises:
        ValueError: If a head has counts that were made with another tokenizer.
    """
    heads = [(method, head) for method in methods for head in (method.head, method.trained_head)]
    for method, head in heads:
        expect_tokenizer(head, tokenizer, f"method '{method.title}': head")
    if task.writes is None and not any(wants_counts(head) for _, head in heads):
        return None
    with nullcontext() if path.exists() else stages("start", "counts"):
        return counts_file(path, task.data, tokenizer)


def needed_test_counts(task: Task, tokenizer: PreTrainedTokenizerBase, path: Path, stages: Watcher) -> Path | None:
    """The file ``path`` with token counts of the test data, created if missing. ``None`` if no metric needs it."""
    text = task.data.test_text()
    if task.writes is None or text is None or not any(map(asks_for_test_data, task.writes.texts.metrics)):
        return None
    if not path.exists():
        with stages("start", "counts of the test data"):
            counts = np.bincount(token_ids(tokenizer, text), minlength=len(tokenizer))
            TokenCounts(counts, tokenizer=tokenizer_fingerprint(tokenizer), source="the test text").save(path)
    return path
