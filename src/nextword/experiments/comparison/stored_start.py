"""Trains the heads of all methods and seeds from one store: a folder with hidden states of the initial checkpoint.

The store is built if it is missing. Trainings do not load the backbone, and saved models link to one copy of the
backbone's weights.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue
from transformers import AutoConfig

from nextword.experiments.comparison.comparison_settings import CompareConfig
from nextword.experiments.comparison.initial_checkpoint import PRECISION, InitialCheckpoint
from nextword.experiments.comparison.one_run import Setting
from nextword.experiments.comparison.preflight import all_candidates, check_methods, most_layers, read_layers
from nextword.experiments.tasks.window_likelihood import WindowTask
from nextword.experiments.training.starting_model import TASKS
from nextword.experiments.training.stored_training import (
    dropout_rates,
    ordinary,
    read_rows,
    text_rows,
    write_ordinary,
)
from nextword.inference.states import StatesSettings, build_states
from nextword.model.attach import ObjectiveSpec, with_head
from nextword.model.stored_states.finished_model import BACKBONE, saved_head
from nextword.model.stored_states.state_files import MANIFEST, StatesManifest, manifest_of
from nextword.model.stored_states.stored_backbone import StoredBackbone
from nextword.objectives import parse_objective
from nextword.runtime.resumable import begin, differences

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task
    from nextword.model.modeling import NextWordModel

USED = "states.json"
"""File in the folder of the initial checkpoint that describes the store of its runs."""

SHARED = "backbone"
"""Subfolder of the initial checkpoint's folder with the backbone's weights, to which saved models link."""

FIXED = ("model_fingerprint", "precision")
"""Facts of a store that must be the same in all calls of a comparison."""


@dataclass(frozen=True)
class StoredStart(InitialCheckpoint):
    """An initial checkpoint with stored hidden states, so that the model does not compute them in training.

    Attributes:
        states: Folder of the stored states.
    """

    states: Path = Path()

    def backbone(self) -> Any:
        """A backbone in float32 that has the output layer, and reads the stored states instead of computing them."""
        return StoredBackbone.open(self.states, PRECISION)

    def parameters(self, model: NextWordModel) -> int:
        """Number of parameters of ``model`` with its whole backbone, which is not loaded."""
        own = [one for name, one in model.named_parameters() if not name.startswith(BACKBONE)]
        return self.record.parameters + sum(one.numel() for one in own)

    def save(self, model: NextWordModel, folder: Path) -> None:
        """Write the head of ``model`` into ``folder``, with the backbone's weights as hard links or else as copies."""
        model.config.dtype = model.dtype  # the training may have changed the precision
        write_ordinary(model, str(self.folder / "model"), folder, self.folder / SHARED)

    def saved(self, folder: Path, objective: ObjectiveSpec | None = None) -> NextWordModel:
        """Load the head saved in ``folder``, as a model on the stored states."""
        config: Any = AutoConfig.from_pretrained(folder)
        if objective is not None:
            config.objective = parse_objective(objective).model_dump()
        return with_head(StoredBackbone.open(self.states, config.dtype), config, saved_head(folder), folder)

    def measured(self, folder: Path, task: Task) -> NextWordModel:
        """Load the head in ``folder``: on stored states if ``task`` measures running text, else on the whole model."""
        return self.saved(folder) if isinstance(task, WindowTask) else super().measured(folder, task)

    def whole(self, model: NextWordModel) -> NextWordModel:
        """Return ``model`` with the whole backbone, which is loaded if ``model`` reads stored states."""
        is_stored = isinstance(model.backbone, StoredBackbone)
        return ordinary(model, str(self.folder / "model")) if is_stored else model

    @property
    def stored(self) -> dict[str, JsonValue]:
        """Number of tokens, precision and rounding of the stored states."""
        manifest = manifest_of(self.states)
        return {
            "tokens": manifest.tokens,
            "precision": manifest.origin.precision,
            "rounding": manifest.rounding,
        }


def is_stored(config: CompareConfig) -> bool:
    """Whether ``config.states`` is a finished store."""
    return config.states is not None and (Path(config.states).expanduser() / MANIFEST).is_file()


def stored_start(setting: Setting, states: str, command: str) -> StoredStart:
    """Return the initial checkpoint with the store in the folder ``states``, which is built or completed if necessary.

    Raises:
        ValueError: If the store is of another model, lacks rows of the comparison or layers that a head reads, or has
            another precision than in earlier calls.
    """
    folder, start = Path(states).expanduser(), setting.start
    was_there = is_stored(setting.config)
    if not was_there:
        _build(setting, folder, command)
    stored = StoredStart(**{one.name: getattr(start, one.name) for one in fields(start)}, states=folder)
    backbone = stored.backbone()
    if was_there:
        _expect_same_model(backbone, start, states)
        _expect_layers(setting.config, backbone.store.manifest.origin.layers, states)
        _expect_rows(setting, backbone, states)
        check_methods(backbone, setting.config, setting.task, start.counts)
    begin(start.folder / USED, manifest_of(folder).origin, "comparison", lambda key: key not in FIXED)
    return stored


def _build(setting: Setting, folder: Path, command: str) -> StatesManifest:
    rows = list(read_rows(setting.task, setting.start.tokenizer, setting.rows))
    with setting.stages("states", "computing") as advanced:
        return build_states(
            (setting.start.folder / "model").resolve(),
            rows,
            folder,
            StatesSettings(layers=most_layers(setting.config)),
            task=_task_of_training(setting.config),
            text_rows=text_rows(setting.task, setting.rows),
            command=command,
            progress=lambda done, total: advanced(done / total),
        )


def _task_of_training(config: CompareConfig) -> dict[str, Any]:
    # the same description as in ``nextword train`` and ``states build``, which generate no texts
    from nextword.experiments.tasks import registry

    settings = {key: value for key, value in config.task_settings.items() if key != "generation"}
    kinds = {task: kind for (kind, _), task in TASKS.items()}
    kind = kinds.get(registry.get(config.task))
    return {**settings, "name": config.task} if kind is None else {**settings, "kind": kind}


def _expect_same_model(backbone: StoredBackbone, start: InitialCheckpoint, states: str) -> None:
    manifest = backbone.store.manifest
    there = manifest.origin.model_fingerprint
    if there is None or start.record.fingerprint is None:
        raise ValueError(
            f"states: must be of weights that can be compared ('{states}' is of '{manifest.origin.model}' in half "
            "precision); name a new folder, in which the states are then computed"
        )
    if there != start.record.fingerprint:
        raise ValueError(
            f"states: must be of the initial checkpoint '{start.record.source}' ('{states}' has those of "
            f"'{manifest.origin.model}'); name another folder"
        )
    if rates := dropout_rates(backbone.config):
        raise ValueError(f"states: must be of a model without dropout ({rates} in the config.json of '{states}')")


def _expect_layers(config: CompareConfig, layers: int, states: str) -> None:
    for method in all_candidates(config):
        if (read := read_layers(method)) > layers:
            raise ValueError(
                f"method '{method.title}': reads {read} layers, and '{states}' has {layers}; name another folder, or "
                "delete this one to have its states computed again"
            )


def _expect_rows(setting: Setting, backbone: StoredBackbone, states: str) -> None:
    if backbone.store.has_all(read_rows(setting.task, setting.start.tokenizer, setting.rows)):
        return
    kept = {key: value for key, value in backbone.store.manifest.origin.task.items() if key not in ("kind", "name")}
    wanted = {key: value for key, value in setting.config.task_settings.items() if key != "generation"}
    different = differences(kept, wanted)
    raise ValueError(
        f"states: must have all rows that this comparison reads ('{states}': "
        f"{'; '.join(different) or 'the data have changed'}); give the store's task settings, or another folder"
    )
