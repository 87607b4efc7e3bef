"""Measures the texts of one system or several: samples files in, a record of every value out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from nextword.config import validated
from nextword.evaluation.choice import chosen
from nextword.evaluation.config import EvaluateConfig
from nextword.evaluation.passes import ASKED, NOTHING_ASKED, Measured, Reading, Watch, read_file
from nextword.evaluation.samples import first_sample
from nextword.evaluation.units import unit_for
from nextword.evaluation.wins import wins
from nextword.metrics import groups
from nextword.metrics.intervals import bootstrap_intervals, over_seeds
from nextword.metrics.metric import MetricConfig, Setup
from nextword.metrics.paired import PairedTest, holm, paired_tests
from nextword.metrics.statistic import Statistic
from nextword.metrics.units import Words
from nextword.records import (
    Environment,
    EvaluationResults,
    Goal,
    Measure,
    MetricValue,
    PairRecord,
    SampleFile,
    SystemRecord,
    Wins,
)

HUMAN = "human"


def evaluate(
    config: EvaluateConfig | Mapping[str, Any], watch: Watch = lambda stage, done, total: None, command: str = ""
) -> EvaluationResults:
    """Measures samples; see ``docs/evaluate.md`` for what a samples file holds.

    Features of models are kept beside each samples file, in a folder of its name with ``.features`` behind it, so that
    an interrupted evaluation goes on where it was.

    Args:
        config: What to measure; as a mapping for instance
            ``{"systems": {"gpt2": ["samples.jsonl"]}, "metrics": ["self-bleu:3"]}``.
        watch: Told about progress: a name, how much of it is done, of how much (0: not known).
        command: The command line that repeats this, for the record.

    Returns:
        Every value with its interval, the human row, paired tests and wins.

    Raises:
        ValueError: A wrong setting, a line that is no sample, a missing field, systems with different prompts.
    """
    config = config if isinstance(config, EvaluateConfig) else validated(EvaluateConfig, config)
    files = {name: [Path(file) for file in paths] for name, paths in config.systems.items()}
    firsts = [first_sample(path, Words(), config.fields) for paths in files.values() for path in paths]
    unit = unit_for(firsts[0], config.tokenizer, config.special)
    metrics, left_out = chosen(config.metrics, firsts)
    readings: dict[str, list[Reading]] = {}
    for name, paths in files.items():
        for path in paths:
            told = _named(watch, f"{name}, {path.name}" if len(paths) > 1 else name)
            folder = path.with_name(path.name + ".features")
            setup = Setup(unit, folder, config.device, config.batch_size, told)
            # The references are the same for all systems, so they are measured once.
            human = config.human and not readings
            readings.setdefault(name, []).append(read_file(path, metrics, setup, config.fields, human, told))
    _check_seeds(readings)
    difference = different_prompts([one for runs in readings.values() for one in runs])
    if config.paired and difference is not None:
        raise ValueError(f"{difference}. Paired tests need the same examples; paired=false compares without tests.")
    passes = {name: [_measured(one, _named(watch, name)) for one in runs] for name, runs in readings.items()}
    if difference is not None:
        left_out["human"] = "the systems have different references"
    human_row = None if difference is not None else _people(next(iter(readings.values()))[0], watch)
    return _record(config, passes, human_row, left_out, unit.name, metrics, command)


@dataclass(frozen=True)
class Pass:
    """A file and what was measured of its texts."""

    reading: Reading
    measured: Measured


def _measured(reading: Reading, watch: Watch) -> Pass:
    return Pass(reading, reading.system.result(watch))


def _people(reading: Reading, watch: Watch) -> Pass | None:
    if not reading.human.samples:
        return None
    return Pass(reading, reading.human.result(_named(watch, HUMAN)))


def _named(watch: Watch, stage: str) -> Watch:
    return lambda what, done, total: watch(f"{stage}: {what}", done, total)


def _check_seeds(readings: Mapping[str, list[Reading]]) -> None:
    """Raises ValueError where two seeds of a system are one file."""
    for name, runs in readings.items():
        seen: dict[str, Path] = {}
        for one in runs:
            if one.sha256 in seen:
                raise ValueError(f"{name}: {one.path} holds the same as {seen[one.sha256]}; seeds are different files")
            seen[one.sha256] = one.path


def different_prompts(readings: Sequence[Reading]) -> str | None:
    """What shows that the files do not hold the same examples in the same order; None where they do."""
    first = readings[0]
    for other in readings[1:]:
        if len(other.prompts) != len(first.prompts):
            return f"{other.path} has {len(other.prompts)} samples, {first.path} has {len(first.prompts)}"
        for line, (a, b) in enumerate(zip(first.prompts, other.prompts, strict=True), 1):
            if a != b:
                fields = ", ".join(field for field, x, y in zip(ASKED, a, b, strict=True) if x != y)
                order = " (the same examples in another order)" if set(first.prompts) == set(other.prompts) else ""
                return f"{other.path}, line {line}: another {fields} than in {first.path}, line {line}{order}"
    return None


def _record(
    config: EvaluateConfig,
    passes: dict[str, list[Pass]],
    human: Pass | None,
    left_out: dict[str, str],
    unit: str,
    metrics: list[MetricConfig],
    command: str,
) -> EvaluationResults:
    columns = [one.measured for runs in passes.values() for one in runs]
    measures = _measures([*columns, *([human.measured] if human else [])])
    systems = [_system(name, [_file(one, config) for one in runs], measures) for name, runs in passes.items()]
    of_humans = None if human is None else _file(human, config)
    tests, untested = _tests(config, passes)
    return EvaluationResults(
        command=command,
        unit=unit,
        measures=measures,
        systems=systems,
        human=of_humans,
        left_out=left_out,
        tests=tests,
        untested=untested,
        wins=_wins(config, systems, of_humans, measures, columns),
        settings={
            **config.model_dump(mode="json", exclude={"metrics"}),
            "metrics": [one.model_dump(mode="json") for one in metrics],
        },
        environment=Environment.collect(),
    )


def _measures(columns: list[Measured]) -> dict[str, Measure]:
    """What every key means, groups in reading order."""
    found = {key: score.measure for column in columns for key, score in column.scores.items()}
    place = {group: number for number, group in enumerate(groups.ORDER)}
    ordered = sorted(found, key=lambda key: place.get(found[key].group, len(place)))
    return {key: found[key] for key in ordered}


def _file(one: Pass, config: EvaluateConfig) -> SampleFile:
    scores = one.measured.scores
    drawn = {key: score.statistic for key, score in scores.items() if score.statistic is not None}
    intervals = dict(zip(drawn, bootstrap_intervals(list(drawn.values()), config.resamples, config.seed), strict=True))
    values = {}
    for key, score in scores.items():
        low, high = intervals.get(key) or (None, None)
        values[key] = MetricValue(value=score.value, unit=score.measure.unit, n=score.n, low=low, high=high)
    return SampleFile(
        file=one.reading.path.name,
        sha256=one.reading.sha256,
        samples=one.measured.samples,
        values=values,
        undefined=one.measured.undefined,
    )


def _system(name: str, files: list[SampleFile], measures: dict[str, Measure]) -> SystemRecord:
    """The system and its means over seeds; what some seed lacks has no mean, which would flatter the system."""
    if len(files) == 1:
        return SystemRecord(name=name, files=files, values=files[0].values)
    values = {}
    for key in measures:
        found = [file.values[key] for file in files if key in file.values]
        if len(found) == len(files):
            mean, interval = over_seeds([value.value for value in found])
            low, high = interval or (None, None)
            values[key] = MetricValue(
                value=mean, unit=found[0].unit, n=sum(value.n for value in found), low=low, high=high
            )
    return SystemRecord(name=name, files=files, values=values)


def _tests(config: EvaluateConfig, passes: dict[str, list[Pass]]) -> tuple[list[PairRecord], str | None]:
    if len(passes) < 2:
        return [], None
    if not config.paired:
        return [], "they were turned off, so that systems may have different prompts"
    if next(iter(passes.values()))[0].reading.prompts[0] == NOTHING_ASKED:
        return [], f"the samples have none of {', '.join(ASKED)} to be paired by"
    found: list[tuple[str, str, str, PairedTest]] = []
    for first, second in combinations(passes, 2):
        a, b = _pooled(passes[first]), _pooled(passes[second])
        keys = [key for key in a if key in b and a[key].parts.shape == b[key].parts.shape]
        results = paired_tests(
            [a[key] for key in keys], [b[key] for key in keys], config.resamples, config.permutations, config.seed
        )
        found += [(key, first, second, test) for key, test in zip(keys, results, strict=True) if test is not None]
    corrected = holm([test.p_permutation for *_, test in found])
    records = [_pair(*one, p_holm=p) for one, p in zip(found, corrected, strict=True)]
    return records, None if records else "no measure falls into samples, or there are fewer than two samples"


def _pair(key: str, first: str, second: str, test: PairedTest, p_holm: float) -> PairRecord:
    low, high = test.interval or (None, None)
    return PairRecord(
        measure=key,
        first=first,
        second=second,
        difference=test.difference,
        low=low,
        high=high,
        p_bootstrap=test.p_bootstrap,
        p_permutation=test.p_permutation,
        p_holm=p_holm,
    )


def _pooled(runs: list[Pass]) -> dict[str, Statistic]:
    """The statistics over the texts of all seeds; a prompt stays one unit of drawing, whatever number of seeds."""
    columns = [
        {key: score.statistic for key, score in one.measured.scores.items() if score.statistic is not None}
        for one in runs
    ]
    shared = [key for key in columns[0] if all(key in column for column in columns)]
    # A mean, not a sum: a prompt weighs the same in every system, so that systems can be swapped.
    return {
        key: Statistic(np.mean([column[key].parts for column in columns], axis=0), columns[0][key].combine)
        for key in shared
    }


def _wins(
    config: EvaluateConfig,
    systems: list[SystemRecord],
    human: SampleFile | None,
    measures: dict[str, Measure],
    columns: list[Measured],
) -> Wins | None:
    if len(systems) < 2:
        return None
    goals: dict[str, Goal] = {key: one.goal for key, one in measures.items() if one.goal is not None}
    unknown = [key for key in config.wins or () if key not in measures]
    if unknown:
        raise ValueError(f"wins: {', '.join(unknown)} was not measured; measured: {', '.join(measures)}")
    voting = config.wins or list(dict.fromkeys(key for column in columns for key in column.votes))
    values = {system.name: {key: value.value for key, value in system.values.items()} for system in systems}
    of_humans = {} if human is None else {key: value.value for key, value in human.values.items()}
    return wins(values, goals, of_humans, voting)
