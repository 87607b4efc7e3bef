"""Measures what all methods of a comparison wrote, each decoding by itself, and keeps what was measured."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.evaluation import EvaluateConfig, evaluate
from nextword.evaluation.all_systems import HUMAN
from nextword.evaluation.metric_choice import not_installed
from nextword.evaluation.metrics.metric import parse_metric
from nextword.evaluation.metrics.metric import registry as metrics
from nextword.experiments.comparison.corpus_counts import AGAINST, asks_for_test_data, expect_test_data
from nextword.experiments.comparison.folder import ComparisonFolder
from nextword.experiments.comparison.method import Method, slug
from nextword.experiments.comparison.one_run import Setting
from nextword.experiments.tasks.parts.head_counts import FIELD
from nextword.inference.generation.strategies import PromptedDecoding
from nextword.results.records import EvaluationResults, Record, RunRecord
from nextword.settings.version import __version__

if TYPE_CHECKING:
    from nextword.experiments.tasks import Task, Texts

logger = logging.getLogger(__name__)

CORPUS = "corpus"
"""Setting of a metric that names a text to count instead."""
MODEL, START = "model", "start"
"""Setting of a metric that names the model it asks, and the name of the comparison's own start there."""


class MeasuredTexts(Record):
    """What was measured of the texts of one decoding, and of which files with which settings."""

    key: str
    """Checksum of files, settings and library version."""
    results: EvaluationResults
    """What was measured."""


def expect_measurable(task: Task, methods: Sequence[Method]) -> None:
    """Raises ValueError where the texts could not be measured, before anything is trained."""
    if task.writes is None:
        return
    texts = task.writes.texts
    if any(method.title == HUMAN for method in methods):
        raise ValueError(f"a method is called '{HUMAN}', which is the row of people's texts; give it another label")
    expect_test_data(task, texts)
    for one in texts.metrics:
        metric = parse_metric(one).metric
        lack = not_installed(metrics.get(metric))
        if lack is not None:
            raise ValueError(f"{metric} {lack}")


def measured_texts(setting: Setting, records: Sequence[RunRecord], command: str) -> dict[str, EvaluationResults]:
    """What is measured of the texts of all runs, by title of the decoding; systems are methods.

    The files of a method are those of its first seed, then those of the next.
    """
    if setting.task.writes is None or not records:
        return {}
    texts = setting.task.writes.texts
    return {
        way.title: _measure(way.title, _evaluate_config(texts, way, setting, records), setting, command)
        for way in texts.decodings
    }


def _evaluate_config(
    texts: Texts, way: PromptedDecoding, setting: Setting, records: Sequence[RunRecord]
) -> EvaluateConfig:
    models: dict[str, list[list[Path]]] = {}
    for record in records:
        files = [setting.folder.path / file for file in record.samples[way.title]]
        models.setdefault(record.method, []).append(files)
    ordered = {
        method.title: models[method.title] if method.trained else _distinct(models[method.title])
        for method in setting.config.methods
        if method.title in models  # all of its runs may have failed
    }
    tokenizer = setting.start.tokenizer
    special = {tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id} - {None}
    return EvaluateConfig(
        systems={title: [str(file) for files in of for file in files] for title, of in ordered.items()},
        draws=len(texts.draws_of(way)),
        metrics=[_with_files_of_start(one, setting) for one in texts.metrics],
        special=sorted(special),
        wins=None if texts.wins is None else list(texts.wins),
    )


def _distinct(models: Sequence[list[Path]]) -> list[list[Path]]:
    """Models without those that wrote the same as an earlier one: what nobody trained is the same with every seed."""
    return list({tuple(file.read_bytes() for file in files): files for files in reversed(models)}.values())[::-1]


def _with_files_of_start(metric: str | dict[str, Any], setting: Setting) -> str | dict[str, Any]:
    """The metric with what the start's folder has for it.

    That is the start itself, where it asks a model called "start"; the counts of the training text, where it goes by
    counts and names none; or those of the test text.
    """
    config, start = parse_metric(metric), setting.start
    if getattr(config, MODEL, None) == START:
        return {**config.model_dump(mode="json"), MODEL: str(setting.folder.start / "model")}
    if asks_for_test_data(metric):
        return {**config.model_dump(mode="json"), AGAINST: str(start.test_counts)}
    wants = FIELD in type(config).model_fields and all(getattr(config, name, None) is None for name in (FIELD, CORPUS))
    if wants and start.counts is not None:
        return {**config.model_dump(mode="json"), FIELD: str(start.counts)}
    return metric


def _measure(title: str, config: EvaluateConfig, setting: Setting, command: str) -> EvaluationResults:
    path, key = setting.folder.texts / f"{slug(title)}.json", _key(config, setting)
    earlier = _stored(path)
    if earlier is not None and earlier.key == key:
        return earlier.results
    with setting.stages("texts", title) as advanced:
        results = evaluate(config, _Share(config, advanced), command)
    results = results.model_copy(update={"settings": _with_relative_paths(results.settings, setting.folder)})
    MeasuredTexts(key=key, results=results).save(path)
    return results


def _stored(path: Path) -> MeasuredTexts | None:
    if not path.exists():
        return None
    try:
        return MeasuredTexts.load(path)
    except ValueError as problem:
        logger.warning("%s; the texts are measured again", problem)
        return None


def _key(config: EvaluateConfig, setting: Setting) -> str:
    files = [Path(file) for paths in config.systems.values() for file in paths]
    counts = [path for path in (setting.start.counts, setting.start.test_counts) if path is not None]
    sums = [_sha256(file) for file in [*files, *counts]]
    settings = _with_relative_paths(config.model_dump(mode="json"), setting.folder)
    content = json.dumps([__version__, settings, sums], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _with_relative_paths(value: Any, folder: ComparisonFolder) -> Any:
    """Settings with paths relative to ``results.json``."""
    if isinstance(value, dict):
        return {key: _with_relative_paths(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_relative_paths(inner, folder) for inner in value]
    inside = f"{folder.path}/"
    return value.removeprefix(inside) if isinstance(value, str) else value


class _Share:
    """Makes one share, from 0 to 1, of what an evaluation says about its progress.

    Half of the way is reading samples, half is computing the metrics of each file and of people.
    """

    def __init__(self, config: EvaluateConfig, advanced: Callable[[float], None]) -> None:
        files = [file for paths in config.systems.values() for file in paths]
        self._samples = sum(_line_count(Path(file)) for file in files)
        self._results = (len(files) + 1) * len(config.metrics)
        self._read = self._done = 0
        self._advanced = advanced

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage.endswith(": reading"):
            self._read += 1
        elif total:
            self._done += 1
        share = self._read / max(self._samples, 1) + self._done / self._results
        self._advanced(min(share / 2, 1.0))


def _line_count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
