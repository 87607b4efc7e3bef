"""One pass over a samples file: every metric reads every sample once, and the references as if a system wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextword.evaluation.choice import lacking
from nextword.evaluation.samples import read_samples
from nextword.metrics.metric import Metric, MetricConfig, Score, Setup, UndefinedError, registry
from nextword.metrics.sample import Sample

Watch = Callable[[str, int, int], None]
"""Told what is going on: a name, how much is done, of how much."""


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


@dataclass(frozen=True)
class Pass:
    """A samples file, measured."""

    path: Path
    sha256: str
    system: Measured
    human: Measured | None
    prompts: list[bytes]
    """A hash of what each sample was asked and compared with: equal for the same example of another system."""


class Column:
    """The metrics of one column of the table, while samples pass."""

    def __init__(self, configs: Sequence[MetricConfig], setup: Setup) -> None:
        self._metrics: dict[str, Metric] = {c.metric: registry.get(c.metric)(c, setup) for c in configs}
        self._samples = 0

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


def measure_file(
    path: Path, configs: Sequence[MetricConfig], setup: Setup, fields: dict[str, str], human: bool, watch: Watch
) -> Pass:
    """Reads the file once and measures its texts, and its first references too where ``human``.

    Raises:
        ValueError: A line is no sample, or lacks what a metric needs.
    """
    column = Column(configs, setup)
    references: Column | None = None
    prompts: list[bytes] = []
    for number, sample in enumerate(read_samples(path, setup.unit, fields)):
        if number == 0 and human and _has_references(sample):
            references = Column(_of_people(configs, sample.as_human()), setup)
        column.add(sample)
        if references is not None:
            references.add(sample.as_human())
        prompts.append(_asked(sample))
        watch("reading", number + 1, 0)
    system = column.result(watch)
    of_humans = None
    if references is not None:
        of_humans = references.result(lambda name, done, count: watch(f"human, {name}", done, count))
    return Pass(path, _sha256(path), system, of_humans, prompts)


def _of_people(configs: Sequence[MetricConfig], first: Sample) -> list[MetricConfig]:
    """The metrics that a human row has: those for which references are texts like any other."""
    metrics = [(config, registry.get(config.metric)) for config in configs]
    return [config for config, metric in metrics if metric.scores_people and not lacking(metric, first)]


def _has_references(sample: Sample) -> bool:
    return bool(sample.references or sample.reference_token_ids or sample.target_token_ids)


def _asked(sample: Sample) -> bytes:
    """A hash of the example; the document is left out, because systems may have been given different cuts of it."""
    told = (
        sample.id, sample.prompt, sample.prompt_token_ids, sample.references, sample.reference_token_ids,
        sample.target_token_ids, sample.right_token_ids,
    )  # fmt: skip
    return hashlib.sha256(repr(told).encode()).digest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
