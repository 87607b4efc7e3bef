"""One pass over a samples file: every metric reads every sample once, and the references as if a system wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

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
"""Told what is going on: a name, how much is done, of how much."""


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
    """What a pass found."""

    scores: dict[str, Score]
    """By key."""
    undefined: dict[str, str]
    """Metrics without a value, with the reason."""
    samples: int
    """How many there are."""
    votes: tuple[str, ...]
    """Keys that vote in a table of wins."""


class MetricColumn(Protocol):
    """One column of the table."""

    @property
    def samples(self) -> int:
        """How many there are."""

    def result(self, watch: Watch) -> PassScores:
        """What its metrics found."""


class PassingColumn:
    """The metrics of one column of the table, while samples pass."""

    def __init__(self, configs: Sequence[MetricConfig], setup: Setup) -> None:
        self._metrics: dict[str, Metric] = {c.metric: registry.get(c.metric)(c, setup) for c in configs}
        self._samples = 0

    @property
    def samples(self) -> int:
        """How many there were."""
        return self._samples

    def add(self, sample: Sample) -> None:
        """All metrics read the sample."""
        for metric in self._metrics.values():
            metric.add(sample)
        self._samples += 1

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
        return PassScores(scores, undefined, self._samples, tuple(votes))


@dataclass(frozen=True)
class MeasuredColumn:
    """A column whose metrics have found all they can: it can be sent from one process to another."""

    measured: PassScores

    @property
    def samples(self) -> int:
        """How many there were."""
        return self.measured.samples

    def result(self, watch: Watch) -> PassScores:
        """What they found."""
        return self.measured


@dataclass(frozen=True)
class ReadSamples:
    """A samples file, read."""

    path: Path
    sha256: str
    plain_text: PlainText | None
    """How it was cut into texts; None: it holds JSON lines."""
    system: MetricColumn
    """What the system wrote."""
    human: MetricColumn
    """What people wrote in its place; empty without references."""
    prompts: list[tuple[int, ...]]
    """What each sample was asked and compared with, as a digest of each of ``ASKED``."""

    def measured(self) -> ReadSamples:
        """The same with both columns measured."""
        system, human = (MeasuredColumn(one.result(silent)) for one in (self.system, self.human))
        return replace(self, system=system, human=human)


@dataclass(frozen=True)
class Pass:
    """A file and what was measured of its texts."""

    reading: ReadSamples
    measured: PassScores


def read_file(
    path: Path, configs: Sequence[MetricConfig], setup: Setup, config: EvaluateConfig, human: bool, watch: Watch
) -> ReadSamples:
    """Shows every sample of the file to every metric, and its first reference too where ``human``.

    How the file is read is as ``config`` says.

    Raises:
        ValueError: A line is no sample, or lacks what a metric needs.
    """
    system, references = PassingColumn(configs, setup), PassingColumn((), setup)
    prompts: list[tuple[int, ...]] = []
    digest = hashlib.sha256()
    given = AllOrNone("references")
    plain_text = plain_text_of(path, config.plain_text)
    people_file = None if config.references is None else Path(config.references)
    samples = read_samples(path, setup.unit, config.fields, digest, plain_text, people_file)
    for number, sample in enumerate(samples):
        system.add(sample)
        if human and given.has(sample, _has_references(sample)):
            people = sample.as_human()
            if number == 0:
                references = PassingColumn(_of_people(configs, people), setup)
            references.add(people)
        prompts.append(tuple(_digest(getattr(sample, field)) for field in ASKED))
        watch("reading", number + 1, 0)
    return ReadSamples(path, digest.hexdigest(), plain_text, system, references, prompts)


def _of_people(configs: Sequence[MetricConfig], first: Sample) -> list[MetricConfig]:
    """The metrics that a human row has: those for which references are texts like any other."""
    metrics = [(config, registry.get(config.metric)) for config in configs]
    return [config for config, metric in metrics if metric.scores_people and not lacking(metric, first)]


def _has_references(sample: Sample) -> bool:
    return bool(sample.references or sample.reference_token_ids or sample.target_token_ids)


# -- Which metrics are measured: those asked for, or all that can be.

EITHER = {
    "tokens": ("token_ids", "text"),
    "prompt_tokens": ("prompt_token_ids", "prompt"),
    "reference_tokens": ("reference_token_ids", "references"),
    "predictions": ("target_ranks", "predicted_token_ids"),
}
"""Needs that one of two fields meets."""


def lacking(metric: type[Metric], sample: Sample) -> list[str]:
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

    Args:
        asked: Specs, settings in full, or "all".
        firsts: The first sample of every file, which show what there is.

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
        _require(config.metric, firsts)
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


def _require(name: str, firsts: Sequence[Sample]) -> None:
    metric = registry.get(name)
    lack = not_installed(metric)
    if lack is not None:
        raise ValueError(f"{name} {lack}")
    for sample in firsts:
        for field in lacking(metric, sample):
            sample.need(field.rpartition(" or ")[2], name)


def _why_not(metric: type[Metric], firsts: Sequence[Sample]) -> str | None:
    for sample in firsts:
        fields = lacking(metric, sample)
        if fields:
            return f"no {' and no '.join(fields)} in {sample.place}"
    return not_installed(metric) or metric.on_request()


# -- All samples files, read one after another or by several processes at once.


@dataclass(frozen=True)
class FilesToRead:
    """How files are read and measured.

    Attributes:
        metrics: What is measured.
        setup: What metrics are given, for every file.
        config: How files are read.
    """

    metrics: tuple[MetricConfig, ...]
    setup: Setup
    config: EvaluateConfig

    def setup_of(self, path: Path) -> Setup:
        """The same with the folder in which features of this file are kept."""
        beside = path.with_name(path.name + ".features")
        features = self.config.features
        return replace(self.setup, cache=beside if features is None else Path(features).expanduser())


def read_files(paths: Sequence[tuple[str, Path]], files: FilesToRead, watch: Watch) -> Iterator[ReadSamples]:
    """What is read of each file, in order; the references of the first only, for they are the same for all.

    Args:
        paths: Name and place of each.
        files: How they are read.
        watch: Told how far it is.
    """
    if files.config.processes is None:
        for number, (name, path) in enumerate(paths):
            told = partial(_tell, watch, name)
            setup = replace(files.setup_of(path), progress=told)
            yield read_file(path, files.metrics, setup, files.config, files.config.human and not number, told)
        return
    from nextword.runtime.workers import workers  # imports torch, which other evaluations may do without

    tasks = (_Measure(path, files.config.human and not number) for number, (_, path) in enumerate(paths))
    at_work = workers(partial(_as_given, files), min(files.config.processes, len(paths)))
    for done, reading in enumerate(at_work.answers(tasks), 1):
        watch("files", done, len(paths))
        yield reading


@dataclass(frozen=True)
class _Measure:
    """Reads one file in a process of its own, and measures it there."""

    path: Path
    human: bool

    def __call__(self, opened: FilesToRead) -> ReadSamples:
        """As the files are read that it is one of."""
        setup = opened.setup_of(self.path)
        return read_file(self.path, opened.metrics, setup, opened.config, self.human, setup.progress).measured()


def _as_given(files: FilesToRead) -> FilesToRead:
    return files


def _tell(watch: Watch, name: str, what: str, done: int, total: int) -> None:
    watch(f"{name}: {what}", done, total)
