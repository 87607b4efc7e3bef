"""One pass over a samples file: every metric reads every sample once, and the references as if a system wrote them."""

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
"""Receives the progress: a name, how much is done, of how much."""


ASKED = (
    "id", "prompt", "prompt_token_ids", "references", "reference_token_ids", "target_token_ids", "right_token_ids",
)  # fmt: skip
"""Fields that are the same for the same example of another system. The document is not among them: systems may have
been given different cuts of it."""


def _digest(value: object) -> int:
    """The same in every process, which Python's own hash of a text is not."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest())


NOTHING_ASKED = tuple(_digest(None) for _ in ASKED)


@dataclass(frozen=True)
class PassScores:
    """What a pass found; it can be sent from one process to another."""

    scores: dict[str, Score]
    """By key."""
    undefined: dict[str, str]
    """Metrics without a value, with the reason."""
    samples: int
    """How many there are."""
    votes: tuple[str, ...]
    """Keys that vote in a table of wins."""

    def result(self, watch: Watch) -> PassScores:
        """These; a column that was measured in another process is asked as one that waits for it."""
        return self


class MetricColumn:
    """The metrics of one column of the table, while samples pass."""

    def __init__(self, configs: Sequence[MetricConfig], setup: Setup) -> None:
        self._metrics: dict[str, Metric] = {c.metric: registry.get(c.metric)(c, setup) for c in configs}
        self.samples = 0
        """How many there were."""

    def add(self, sample: Sample) -> None:
        """All metrics read the sample."""
        for metric in self._metrics.values():
            metric.add(sample)
        self.samples += 1

    def result(self, watch: Watch) -> PassScores:
        """What they found."""
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
            assert not taken, f"{name} gives {taken}, which another metric gave before"
            scores |= found
            votes += [key for key in metric.votes if key in found] or list(found)[:1]
        return PassScores(scores, undefined, self.samples, tuple(votes))


@dataclass(frozen=True)
class ReadSamples:
    """A samples file, read."""

    path: Path
    sha256: str
    plain_text: PlainText | None
    """How it was cut into texts; None: it holds JSON lines."""
    system: MetricColumn | PassScores
    """What the system wrote."""
    human: MetricColumn | PassScores
    """The human references; empty without references."""
    prompts: list[tuple[int, ...]]
    """What each sample was asked and compared with, as a digest of each of ``ASKED``."""


@dataclass(frozen=True)
class Pass:
    """A file and what was measured of its texts."""

    reading: ReadSamples
    measured: PassScores


def read_files(
    paths: Sequence[tuple[str, Path]],
    metrics: Sequence[MetricConfig],
    setup: Setup,
    config: EvaluateConfig,
    watch: Watch,
) -> Iterator[ReadSamples]:
    """What is read of each file, in order; the references of the first only, for they are the same for all."""
    if config.processes is None:
        for number, (name, path) in enumerate(paths):
            yield _read(path, metrics, replace(setup, progress=told(watch, name)), config, config.human and not number)
        return
    from nextword.runtime.workers import workers  # imports torch, which other evaluations may do without

    tasks = (partial(_measured, path, config.human and not number) for number, (_, path) in enumerate(paths))
    at_work = workers(partial(_as_given, metrics, setup, config), min(config.processes, len(paths)))
    for done, reading in enumerate(at_work.answers(tasks), 1):
        watch("files", done, len(paths))
        yield reading


def told(watch: Watch, name: str) -> Watch:
    """Tells the same watch, with a name before the progress."""
    return lambda what, done, total: watch(f"{name}: {what}", done, total)


# -- In a process of its own a file is read and measured there; what all files have in common is sent once.

_Shared = tuple[Sequence[MetricConfig], Setup, EvaluateConfig]


def _as_given(*shared: Any) -> Any:
    return shared


def _measured(path: Path, human: bool, shared: _Shared) -> ReadSamples:
    reading = _read(path, *shared, human)
    return replace(reading, system=reading.system.result(silent), human=reading.human.result(silent))


def _read(
    path: Path, metrics: Sequence[MetricConfig], setup: Setup, config: EvaluateConfig, human: bool
) -> ReadSamples:
    """Shows every sample of the file to every metric, and its first reference too where ``human``.

    Raises:
        ValueError: A line is not a sample, or lacks what a metric needs.
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
    """The metrics that a human row has: those for which references are texts like any other."""
    metrics = [(config, registry.get(config.metric)) for config in configs]
    return [config for config, metric in metrics if metric.scores_people and not _lacking(metric, first)]


# -- Which metrics are measured: those asked for, or all that can be.

EITHER = {
    "tokens": ("token_ids", "text"),
    "prompt_tokens": ("prompt_token_ids", "prompt"),
    "reference_tokens": ("reference_token_ids", "references"),
    "predictions": ("target_ranks", "predicted_token_ids"),
}
"""Needs that one of two fields meets."""


def _lacking(metric: type[Metric], sample: Sample) -> list[str]:
    """What the metric needs and the sample has not, in words."""
    needs = [EITHER.get(need, (need,)) for need in metric.needs]
    return [" or ".join(either) for either in needs if not any(_has(sample, name) for name in either)]


def _has(sample: Sample, field: str) -> bool:
    value = getattr(sample, field)
    return bool(value) if field in ("references", "reference_token_ids") else value is not None


def not_installed(metric: type[Metric]) -> str | None:
    """What the metric lacks, and how to install it; None where nothing is."""
    absent = extras.missing(metric.packages)
    return f"needs {', '.join(absent)}, not installed here ({extras.install('metrics')})" if absent else None


def chosen(
    asked: Sequence[str | dict[str, Any]], firsts: Sequence[Sample]
) -> tuple[list[MetricConfig], dict[str, str]]:
    """The metrics to measure, and those that "all" leaves out, with the reason.

    ``firsts`` are the first samples of all files, which show what there is.

    Raises:
        ValueError: Unknown names or settings, the same metric twice, one asked for by name that cannot be measured, or
            nothing to measure at all.
    """
    configs: dict[str, MetricConfig] = {}
    for one in asked:
        if one == ALL:
            continue
        config = parse_metric(one)
        if config.metric in configs:
            raise ValueError(f"metric '{config.metric}' is asked for twice; write its settings in one")
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
    """What to do about samples that no metric can read."""
    has = [field for field in type(sample).model_fields if _has(sample, field)]
    others = [key for key, value in (sample.model_extra or {}).items() if isinstance(value, str)]
    null = [f"'{name}' is null" for name in sorted(sample.model_fields_set) if getattr(sample, name) is None]
    there = ", ".join(sorted(set(has) | set(sample.model_extra or ()))) or "no key with a value"
    way = (
        f" If '{others[0]}' is what the system wrote: {renaming('text', others[0])}."
        if others
        else f" What a system wrote is read from 'text', or from the key that {renaming('text', 'KEY')} names."
    )
    return f"{sample.place}: nothing to measure: it has {there}{''.join(f', and {one}' for one in null)}.{way}"


def _why_not(metric: type[Metric], firsts: Sequence[Sample]) -> str | None:
    for sample in firsts:
        fields = _lacking(metric, sample)
        if fields:
            return f"no {' and no '.join(fields)} in {sample.place}"
    return not_installed(metric) or metric.on_request()
