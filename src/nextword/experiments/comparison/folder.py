"""The folder of a comparison: its files, the settings that identify it, and its finished runs.

```
compare.json                      settings that identify the comparison; no other comparison may use the folder
start/start.json, start/model/    the initial checkpoint; start/counts.npz if token counts are needed
start/backbone/                   the checkpoint's weights, named as in trained models, if those link to them
trained/<head-objective>-seed<k>/ outcome.json and model/, or checkpoints while the training is unfinished
trained/<...>--then-<...>-seed<k>/ the same for a second stage
search/<method>.json              the settings that a method's search tried and chose
runs/<method>-seed<k>/record.json record of a finished run; measured.json if only its texts are missing
runs/<method>-seed<k>/samples/    the texts that the run generated: a file for each decoding and sampling seed; the
                                  ending .partial means that a file is unfinished
texts/                            evaluations of the texts, with a file for each decoding
results.json, report.html         all finished runs
```
A file that marks something as finished is written last and atomically, so that a process may be killed at any time.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nextword.experiments.comparison.comparison_settings import CompareConfig, defaults, plain
from nextword.experiments.comparison.method import Method, slug
from nextword.experiments.training.loss_curve import TrainingOutcome
from nextword.experiments.training.resume import weights_problem
from nextword.experiments.training.settings import FineTuning, overlaid
from nextword.results.records import Record, RunRecord
from nextword.runtime import resumable
from nextword.runtime.resumable import ResumableFolder, read_manifest, refuse_others
from nextword.settings.config import validated

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task


logger = logging.getLogger(__name__)

Kept = TypeVar("Kept", bound=Record)


class ComparisonFolder(ResumableFolder):
    """Paths and state of a comparison's folder."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "comparison", MANIFEST, ["start/start.json", "start/training", "trained", "runs"])
        self.start, self.texts = self.path / "start", self.path / "texts"
        self.results, self.report = self.path / "results.json", self.path / "report.html"

    def stages(self, method: Method, seed: int) -> list[Path]:
        """Folders of the trainings of ``method`` with ``seed``, in order. Other methods may share these trainings."""
        return [self.path / "trained" / f"{stage}-seed{seed}" for stage in method.stages]

    def trained(self, method: Method, seed: int) -> Path:
        """Folder of the last training of ``method`` with ``seed``, which has the trained model."""
        return self.stages(method, seed)[-1]

    def run(self, method: Method, seed: int) -> Path:
        """Folder of the measurements and texts of the run of ``method`` with ``seed``."""
        return self.path / "runs" / f"{method.slug}-seed{seed}"

    def record(self, method: Method, seed: int) -> Path:
        """File of a finished run's record."""
        return self.run(method, seed) / "record.json"

    def measured(self, method: Method, seed: int) -> Path:
        """File of the measurements of a run whose texts are unfinished."""
        return self.run(method, seed) / "measured.json"

    def search(self, method: Method) -> Path:
        """File with the grid search of ``method``."""
        return self.path / "search" / f"{method.slug}.json"

    def samples(self, method: Method, seed: int, decoding: str, draw: int | None = None) -> Path:
        """File of the texts that a run generates with ``decoding`` and, if given, the sampling seed ``draw``."""
        name = slug(decoding) if draw is None else f"{slug(decoding)}-draw-{draw}"
        return self.run(method, seed) / "samples" / f"{name}.jsonl"

    def relative(self, path: Path) -> str:
        """``path``, which is in this folder, relative to the folder."""
        return path.relative_to(self.path).as_posix()

    def as_begun(self, config: CompareConfig) -> CompareConfig:
        """Return ``config`` with the ``fine_tuning`` of the comparison in this folder, unless ``config`` sets it.

        If the comparison began before ``fine_tuning.normalize`` existed, this setting is None unless set in ``config``.

        Raises:
            ValueError: If ``compare.json`` cannot be read.
        """
        if not self.manifest.exists() or not self.has_begun:
            return config
        begun, kept = read_manifest(self.manifest, "a comparison").get("fine_tuning"), config.fine_tuning
        if "fine_tuning" not in config.model_fields_set:
            kept = None if begun is None else validated(FineTuning, begun, f"{self.manifest}: fine_tuning")
        is_older = isinstance(begun, dict) and "normalize" not in begun
        if is_older and kept is not None and "normalize" not in kept.model_fields_set:
            kept = kept.model_copy(update={"normalize": None})
        return config.model_copy(update={"fine_tuning": kept})

    def expect(self, config: CompareConfig, task: Task) -> None:
        """Check that the folder is empty or belongs to the comparison with the settings ``config``. Nothing is written.

        Methods and seeds may be added. Methods without finished runs, settings in ``task.may_change`` and the
        folder of stored states may differ.

        Raises:
            ValueError: If the folder belongs to another comparison (the message names the keys that differ) or has
                other files.
        """
        begun = self.begun()
        if begun is not None:
            wanted = _beyond_defaults(fingerprint(config, task), config)
            found = _beyond_defaults(self._with_results(begun), config)
            free = {f"task_settings.{key}" for key in task.may_change}
            if config.states is not None and found.get("states") is not None:
                free.add("states")  # the store may have been moved
            refuse_others(self.path, self.kind, differences(found, wanted, free))

    def begin(self, config: CompareConfig, task: Task) -> None:
        """Check the folder as ``expect`` does. In a new folder, write the settings that identify the comparison."""
        self.expect(config, task)
        if not self.has_begun:
            self.write_manifest(fingerprint(config, task))

    def _with_results(self, manifest: dict[str, Any]) -> dict[str, Any]:
        # without methods that have no finished run; names of training folders depend on the method's settings
        methods = manifest.get("methods")
        if not isinstance(methods, dict):
            return manifest
        return {**manifest, "methods": {title: one for title, one in methods.items() if self._has_results(one)}}

    def _has_results(self, method: Any) -> bool:
        try:
            name = Method.model_validate(method).slug
        except ValueError:
            return True  # the method was written by another version
        return any((self.path / "runs").glob(f"{name}-seed*/record.json"))

    def finished(self, method: Method, seed: int) -> RunRecord | None:
        """The record of the run of ``method`` with ``seed``; ``None`` if the run is not finished.

        A record that cannot be read, or that names missing samples files, is renamed, and the run counts as unfinished.
        """
        path = self.record(method, seed)
        if not path.exists():
            return None
        try:
            record = RunRecord.load(path)
            gone = [file for files in record.samples.values() for file in files if not (self.path / file).is_file()]
            if not gone:
                return record
            raise ValueError(f"{path} names samples that are gone ({', '.join(gone)})")
        except ValueError as problem:
            number = 1
            while (aside := path.with_name(f"{path.stem}.broken-{number}{path.suffix}")).exists():
                number += 1
            path.rename(aside)
            logger.warning("%s; kept as %s, the run is done again", problem, aside.name)
            return None

    def trained_outcome(self, folder: Path) -> TrainingOutcome | None:
        """The outcome of a finished training in ``folder``, or ``None``. A finished but damaged training is deleted."""
        path = folder / "outcome.json"
        if not path.exists():
            return None
        try:
            outcome = TrainingOutcome.load(path)
            problem = weights_problem(folder / "model")
        except ValueError as error:
            problem = str(error)
        if problem is None:
            return outcome
        logger.warning("%s cannot be used (%s); the model is trained again", folder, problem)
        shutil.rmtree(folder)
        return None

    def drop_model(self, folder: Path) -> None:
        """Delete ``folder``, which has one training with its model."""
        shutil.rmtree(folder, ignore_errors=True)

    def forget(self, method: Method, seed: int) -> None:
        """Delete the measurements and texts of an unfinished run, because they may be of an earlier model."""
        self.measured(method, seed).unlink(missing_ok=True)
        shutil.rmtree(self.run(method, seed) / "samples", ignore_errors=True)


def stored(kind: type[Kept], path: Path, otherwise: str) -> Kept | None:
    """Load the record of class ``kind`` at ``path``. ``None`` if the file does not exist or cannot be read.

    For a file that cannot be read, a warning gives the reason and ``otherwise``, such as "the search is made again".
    """
    if not path.exists():
        return None
    try:
        return kind.load(path)
    except ValueError as problem:
        logger.warning("%s; %s", problem, otherwise)
        return None


def fingerprint(config: CompareConfig, task: Task) -> dict[str, Any]:
    """The settings that identify a comparison, together with its methods and seeds, for ``compare.json``."""
    return {
        "task": config.task,
        "task_version": task.version,
        "task_settings": plain(task.config),
        "files": task.data.describe(),
        "start": plain(config.start),
        "training": config.training,
        "fine_tuning": None if config.fine_tuning is None else plain(config.fine_tuning),
        "second_training": config.second_training,
        "states": config.states,
        "methods": {method.title: plain(method) for method in config.methods},
        "seeds": {str(seed): seed for seed in config.seeds},
    }


def _beyond_defaults(manifest: dict[str, Any], config: CompareConfig) -> dict[str, Any]:
    # without the training settings that are equal to the defaults; some defaults depend on what is given
    given = manifest.get("training")
    if not isinstance(given, dict):
        return manifest
    without = defaults(config, config.fine_tuning, {})
    used = overlaid(defaults(config, config.fine_tuning, given), given)
    return {**manifest, "training": {key: value for key, value in used.items() if value != without.get(key)}}


# -- Whether a folder belongs to a comparison: the settings written into it at first are compared with the current ones.

MANIFEST = "compare.json"
"""Name of the file with the settings that identify the comparison."""
MAY_GROW = ("methods", "seeds")
"""Keys to which a later call may add entries, because finished runs stay valid."""


def differences(manifest: dict[str, Any], asked: dict[str, Any], free: Set[str] = frozenset()) -> list[str]:
    """List differences between a folder's settings (``manifest``) and the current ones (``asked``): one line per key.

    Differences that do not prevent resuming are left out: added methods and seeds, and the dotted keys in ``free``.

    >>> differences({"task": "lm", "seeds": {"0": 0}}, {"task": "expand", "seeds": {"0": 0, "1": 1}})
    ['task: "lm" there, "expand" asked for']
    """

    def may_differ(key: str) -> bool:
        return key in free or key == "nextword" or (key.split(".")[0] in MAY_GROW and _is_new_entry(key, manifest))

    return resumable.differences(_with_later_settings(manifest, asked), asked, may_differ)


def _with_later_settings(manifest: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    # adds settings that did not exist when the manifest was written, with the value that they had implicitly
    defaults = plain(Method(head="softmax"))
    methods = manifest.get("methods")
    if isinstance(methods, dict):
        manifest = {**manifest, "methods": {title: {**defaults, **method} for title, method in methods.items()}}
    return _with_none(manifest, asked)


def _with_none(manifest: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    # adds None for each setting that the manifest lacks and that has the value None now, because it was not set
    unset = {key: None for key, value in asked.items() if value is None and key not in manifest}
    inner = {
        key: _with_none(manifest[key], value)
        for key, value in asked.items()
        if isinstance(value, dict) and isinstance(manifest.get(key), dict)
    }
    return {**manifest, **unset, **inner}


def _is_new_entry(key: str, manifest: dict[str, Any]) -> bool:
    # whether the key belongs to a method or seed that the manifest does not have
    part = key.split(".")[0]
    return not any(key == f"{part}.{name}" or key.startswith(f"{part}.{name}.") for name in manifest.get(part, {}))
