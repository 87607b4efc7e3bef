"""One pass over a samples file: metrics read every sample and, if human text is scored, its first reference."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nextword.evaluation.evaluation_settings import ALL, EvaluateConfig
from nextword.evaluation.metrics.metric import (
    Metric,
    MetricConfig,
    Score,
    Setup,
    UndefinedError,
    parse_metric,
    registry,
    silent,
)
from nextword.evaluation.metrics.sample import AllOrNone, Sample, renaming
from nextword.evaluation.samples import PlainText, plain_text_of, read_samples
from nextword.runtime import optional_libraries as extras

Watch = Callable[[str, int, int], None]
"""Progress function of a stage's name, its number of finished items and its number of all items (0: unknown)."""


ASKED = (
    "id", "prompt", "prompt_token_ids", "references", "reference_token_ids", "target_token_ids", "right_token_ids",
)  # fmt: skip
"""Fields that must be equal in different systems' samples of the same example. ``source`` is not one of them, because
systems may have received different excerpts of a document."""


def _digest(value: object) -> int:
    """A hash that is the same in every process, which Python's own hash is not."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest())


NOTHING_ASKED = tuple(_digest(None) for _ in ASKED)


@dataclass(frozen=True)
class PassScores:
    """Scores of all metrics after one pass over a samples file. They can be pickled."""

    scores: dict[str, Score]
    """Scores by key."""
    undefined: dict[str, str]
    """For each metric that is not defined for the samples, the reason."""
    samples: int
    """Number of samples."""
    votes: tuple[str, ...]
    """Keys of the values by which systems are ranked."""

    def result(self, watch: Watch) -> PassScores:
        """Return these scores. The method exists so that results of another process can replace a ``MetricColumn``."""
        return self


class MetricColumn:
    """The metrics of one file's generated texts, or of its human references, while its samples are read."""

    def __init__(self, configs: Sequence[MetricConfig], setup: Setup) -> None:
        self._metrics: dict[str, Metric] = {c.metric: registry.get(c.metric)(c, setup) for c in configs}
        self.samples = 0
        """Number of samples read."""

    def add(self, sample: Sample) -> None:
        """Let all metrics read the sample."""
        for metric in self._metrics.values():
            metric.add(sample)
        self.samples += 1

    def result(self, watch: Watch) -> PassScores:
        """Compute the scores of all metrics. ``watch`` is called before each metric."""
        scores: dict[str, Score] = {}
        undefined: dict[str, str] = {}
        votes: list[str] = []
        for done, (name, metric) in enumerate(self._metrics.items()):
            watch(name, done, len(self._metrics))
            try:
                found = metric.result()
            except UndefinedError as reason:
                undefined[name] = str(reason)
                continue
            taken = found.keys() & scores.keys()
            assert not taken, (
                f"{name}: must not have the same key as another metric ({taken}); choose different settings"
            )
            scores |= found
            votes += [key for key in metric.votes if key in found] or list(found)[:1]
        return PassScores(scores, undefined, self.samples, tuple(votes))


@dataclass(frozen=True)
class ReadSamples:
    """A samples file after reading."""

    path: Path
    sha256: str
    plain_text: PlainText | None
    """How the plain text was split into texts. None for JSON lines."""
    system: MetricColumn | PassScores
    """Metrics of the generated texts."""
    human: MetricColumn | PassScores
    """Metrics of the human references. Empty if they were not read, or if there are no references."""
    prompts: list[tuple[int, ...]]
    """For each sample, a hash of each field in ``ASKED``."""


@dataclass(frozen=True)
class Pass:
    """A samples file and its scores."""

    reading: ReadSamples
    measured: PassScores


def read_files(
    paths: Sequence[tuple[str, Path]],
    metrics: Sequence[MetricConfig],
    setup: Setup,
    config: EvaluateConfig,
    watch: Watch,
) -> Iterator[ReadSamples]:
    """Read the files of ``paths``, pairs of a name for progress messages and a path, and yield them in this order.

    With ``config.human``, the human references in the first file are scored too.
    """
    if config.processes is None:
        for number, (name, path) in enumerate(paths):
            yield _read(path, metrics, replace(setup, progress=told(watch, name)), config, config.human and not number)
        return
    from nextword.runtime.workers import workers  # imports torch, which is needed only for several processes

    tasks = (partial(_measured, path, config.human and not number) for number, (_, path) in enumerate(paths))
    at_work = workers(partial(_as_given, metrics, setup, config), min(config.processes, len(paths)))
    for done, reading in enumerate(at_work.answers(tasks), 1):
        watch("files", done, len(paths))
        yield reading


def told(watch: Watch, name: str) -> Watch:
    """A progress function that calls ``watch`` and puts ``name`` and a colon before the stage's name."""
    return lambda what, done, total: watch(f"{name}: {what}", done, total)


# -- Evaluation in several processes: each reads and measures a file. Data for all files are sent to a process once.

_Shared = tuple[Sequence[MetricConfig], Setup, EvaluateConfig]


def _as_given(*shared: Any) -> Any:
    return shared


def _measured(path: Path, human: bool, shared: _Shared) -> ReadSamples:
    reading = _read(path, *shared, human)
    return replace(reading, system=reading.system.result(silent), human=reading.human.result(silent))


def _read(
    path: Path, metrics: Sequence[MetricConfig], setup: Setup, config: EvaluateConfig, human: bool
) -> ReadSamples:
    """Let every metric read every sample of a file and, if ``human``, its first reference.

    Raises:
        ValueError: If a line is not a sample, or lacks a field that a metric needs.
    """
    beside = path.with_name(path.name + ".features")
    setup = replace(setup, cache=beside if config.features is None else Path(config.features).expanduser())
    system, references = MetricColumn(metrics, setup), MetricColumn((), setup)
    prompts: list[tuple[int, ...]] = []
    digest = hashlib.sha256()
    given = AllOrNone("references")
    plain_text = plain_text_of(path, config.plain_text)
    people_file = None if config.references is None else Path(config.references)
    samples = read_samples(path, setup.unit, config.fields, digest, plain_text, people_file)
    for number, sample in enumerate(samples):
        system.add(sample)
        written = bool(sample.references or sample.reference_token_ids or sample.target_token_ids)
        if human and given.has(sample, written):
            people = sample.as_human()
            if number == 0:
                references = MetricColumn(_of_people(metrics, people), setup)
            references.add(people)
        prompts.append(tuple(_digest(getattr(sample, field)) for field in ASKED))
        setup.progress("reading", number + 1, 0)
    return ReadSamples(path, digest.hexdigest(), plain_text, system, references, prompts)


def _of_people(configs: Sequence[MetricConfig], first: Sample) -> list[MetricConfig]:
    """The metrics that can be computed for human references."""
    metrics = [(config, registry.get(config.metric)) for config in configs]
    return [config for config, metric in metrics if metric.scores_people and not _lacking(metric, first)]


# -- The metrics to compute: those that the user names, or all that can be computed.

EITHER = {
    "tokens": ("token_ids", "text"),
    "prompt_tokens": ("prompt_token_ids", "prompt"),
    "reference_tokens": ("reference_token_ids", "references"),
    "predictions": ("target_ranks", "predicted_token_ids"),
}
"""Requirements that are satisfied by either of two fields."""


def _lacking(metric: type[Metric], sample: Sample) -> list[str]:
    """The fields that the metric needs and the sample lacks, in words."""
    needs = [EITHER.get(need, (need,)) for need in metric.needs]
    return [" or ".join(either) for either in needs if not any(_has(sample, name) for name in either)]


def _has(sample: Sample, field: str) -> bool:
    value = getattr(sample, field)
    return bool(value) if field in ("references", "reference_token_ids") else value is not None


def not_installed(metric: type[Metric]) -> str | None:
    """The metric's missing modules, and how to install them. None if all are installed."""
    absent = extras.missing(metric.packages)
    return f"needs {', '.join(absent)}, which is not installed ({extras.install('metrics')})" if absent else None


def chosen(
    asked: Sequence[str | dict[str, Any]], firsts: Sequence[Sample]
) -> tuple[list[MetricConfig], dict[str, str]]:
    """The metrics to compute, and a mapping from the name of each metric that "all" leaves out to the reason.

    ``asked`` has specs, mappings of settings, and perhaps "all". ``firsts`` are the first samples of all files, which
    show the available fields.

    Raises:
        ValueError: If a name or setting is unknown, a metric is given twice, a named metric cannot be computed, or no
            metric can be computed.
    """
    configs: dict[str, MetricConfig] = {}
    for one in asked:
        if one == ALL:
            continue
        config = parse_metric(one)
        if config.metric in configs:
            raise ValueError(f"metric '{config.metric}' must be given once (given twice); write its settings in one")
        metric = registry.get(config.metric)
        lack = not_installed(metric)
        if lack is not None:
            raise ValueError(f"{config.metric} {lack}")
        for sample in firsts:
            for field in _lacking(metric, sample):
                sample.need(field.rpartition(" or ")[2], config.metric)
        configs[config.metric] = config
    left_out: dict[str, str] = {}
    if ALL in asked:
        for name in registry.names():
            if name not in configs:
                reason = _why_not(registry.get(name), firsts)
                if reason is None:
                    configs[name] = parse_metric(name)
                else:
                    left_out[name] = reason
    if not configs:
        raise ValueError("\n".join(dict.fromkeys(_nothing(sample) for sample in firsts)))
    return list(configs.values()), left_out


def _nothing(sample: Sample) -> str:
    """The error message for samples that no metric can read."""
    has = [field for field in type(sample).model_fields if _has(sample, field)]
    others = [key for key, value in (sample.model_extra or {}).items() if isinstance(value, str)]
    null = [f"'{name}' is null" for name in sorted(sample.model_fields_set) if getattr(sample, name) is None]
    there = ", ".join(sorted(set(has) | set(sample.model_extra or ()))) or "no key with a value"
    way = (
        f" If '{others[0]}' is the generated text: {renaming('text', others[0])}."
        if others
        else f" The generated text is read from 'text', or from another key: {renaming('text', 'KEY')}."
    )
    return (
        f"{sample.place}: must have a field for at least one metric: it has "
        f"{there}{''.join(f', and {one}' for one in null)}.{way}"
    )


def _why_not(metric: type[Metric], firsts: Sequence[Sample]) -> str | None:
    for sample in firsts:
        fields = _lacking(metric, sample)
        if fields:
            return f"no {' and no '.join(fields)} in {sample.place}"
    return not_installed(metric) or metric.on_request()
