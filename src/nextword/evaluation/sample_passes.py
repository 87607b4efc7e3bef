"""One pass over a samples file: every metric reads every sample once, and the references as if a system wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.metric_choice import lacking
from nextword.evaluation.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry, silent
from nextword.evaluation.metrics.parts.all_or_none import AllOrNone
from nextword.evaluation.metrics.parts.sample import Sample
from nextword.evaluation.samples import PlainText, plain_text_of, read_samples

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
class Measured:
    """What a pass found."""

    scores: dict[str, Score]
    """By key."""
    undefined: dict[str, str]
    """Metrics without a value, with the reason."""
    samples: int
    """How many there are."""
    votes: tuple[str, ...]
    """Keys that vote in a table of wins."""


class Column(Protocol):
    """One column of the table."""

    @property
    def samples(self) -> int:
        """How many there are."""

    def result(self, watch: Watch) -> Measured:
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

    def result(self, watch: Watch) -> Measured:
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
        return Measured(scores, undefined, self._samples, tuple(votes))


@dataclass(frozen=True)
class MeasuredColumn:
    """A column whose metrics have found all they can: it can be sent from one process to another."""

    measured: Measured

    @property
    def samples(self) -> int:
        """How many there were."""
        return self.measured.samples

    def result(self, watch: Watch) -> Measured:
        """What they found."""
        return self.measured


@dataclass(frozen=True)
class Reading:
    """A samples file, read."""

    path: Path
    sha256: str
    plain_text: PlainText | None
    """How it was cut into texts; None: it holds JSON lines."""
    system: Column
    """What the system wrote."""
    human: Column
    """What people wrote in its place; empty without references."""
    prompts: list[tuple[int, ...]]
    """What each sample was asked and compared with, as a digest of each of ``ASKED``."""

    def measured(self) -> Reading:
        """The same with both columns measured."""
        system, human = (MeasuredColumn(one.result(silent)) for one in (self.system, self.human))
        return replace(self, system=system, human=human)


@dataclass(frozen=True)
class Pass:
    """A file and what was measured of its texts."""

    reading: Reading
    measured: Measured


def read_file(
    path: Path, configs: Sequence[MetricConfig], setup: Setup, config: EvaluateConfig, human: bool, watch: Watch
) -> Reading:
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
    return Reading(path, digest.hexdigest(), plain_text, system, references, prompts)


def _of_people(configs: Sequence[MetricConfig], first: Sample) -> list[MetricConfig]:
    """The metrics that a human row has: those for which references are texts like any other."""
    metrics = [(config, registry.get(config.metric)) for config in configs]
    return [config for config, metric in metrics if metric.scores_people and not lacking(metric, first)]


def _has_references(sample: Sample) -> bool:
    return bool(sample.references or sample.reference_token_ids or sample.target_token_ids)
