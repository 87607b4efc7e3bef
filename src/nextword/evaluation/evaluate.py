"""Measures the texts of one system or several: samples files in, a record of every value out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from nextword.config import validated
from nextword.evaluation.choice import chosen
from nextword.evaluation.config import EvaluateConfig
from nextword.evaluation.passes import Measured, Pass, Watch, measure_file
from nextword.evaluation.samples import first_sample
from nextword.evaluation.units import unit_for
from nextword.evaluation.wins import wins
from nextword.metrics import groups
from nextword.metrics.intervals import bootstrap_intervals, over_seeds
from nextword.metrics.metric import Setup
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
    sample = first_sample(next(iter(files.values()))[0], Words(), config.fields)
    unit = unit_for(sample, config.tokenizer)
    metrics, left_out = chosen(config.metrics, sample)
    passes: dict[str, list[Pass]] = {}
    for name, paths in files.items():
        for path in paths:
            setup = Setup(unit, path.with_name(path.name + ".features"), config.device, config.batch_size)
            # The references are the same for all systems, so they are measured once.
            human = config.human and not passes
            stage = f"{name}, {path.name}" if len(paths) > 1 else name
            told = _named(watch, stage)
            passes.setdefault(name, []).append(measure_file(path, metrics, setup, config.fields, human, told))
    if config.paired:
        _check_same_prompts(passes)
    return _record(config, passes, left_out, unit.name, [one.model_dump(mode="json") for one in metrics], command)


def _named(watch: Watch, stage: str) -> Watch:
    return lambda what, done, total: watch(f"{stage}: {what}", done, total)


def _check_same_prompts(passes: Mapping[str, list[Pass]]) -> None:
    """Raises ValueError where two files do not hold the same examples in the same order."""
    every = [one for runs in passes.values() for one in runs]
    first = every[0]
    for other in every[1:]:
        if len(other.prompts) != len(first.prompts):
            raise ValueError(
                f"{other.path.name} has {len(other.prompts)} samples, {first.path.name} has {len(first.prompts)}: "
                "paired tests need the same examples; paired=false compares without tests"
            )
        for line, (a, b) in enumerate(zip(first.prompts, other.prompts, strict=True), 1):
            if a != b:
                raise ValueError(
                    f"{other.path.name}, line {line}: another id, prompt or reference than in line {line} of "
                    f"{first.path.name}; paired tests need the same examples in the same order; paired=false compares "
                    "without tests"
                )


def _record(
    config: EvaluateConfig,
    passes: dict[str, list[Pass]],
    left_out: dict[str, str],
    unit: str,
    metrics: list[JsonValue],
    command: str,
) -> EvaluationResults:
    columns = [one.system for runs in passes.values() for one in runs]
    human = next(iter(passes.values()))[0].human
    measures = _measures([*columns, *([human] if human else [])])
    systems = [
        SystemRecord(name=name, files=found, values=_over_seeds(found, measures))
        for name, found in ((name, [_file(one, one.system, config) for one in runs]) for name, runs in passes.items())
    ]
    of_humans = None if human is None else _file(next(iter(passes.values()))[0], human, config)
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
        settings={**config.model_dump(mode="json", exclude={"metrics"}), "metrics": metrics},
        environment=Environment.collect(),
    )


def _measures(columns: list[Measured]) -> dict[str, Measure]:
    """What every key means, groups in reading order."""
    found = {key: score.measure for column in columns for key, score in column.scores.items()}
    place = {group: number for number, group in enumerate(groups.ORDER)}
    ordered = sorted(found, key=lambda key: place.get(found[key].group, len(place)))
    return {key: found[key] for key in ordered}


def _file(one: Pass, measured: Measured, config: EvaluateConfig) -> SampleFile:
    drawn = {key: score.statistic for key, score in measured.scores.items() if score.statistic is not None}
    intervals = dict(zip(drawn, bootstrap_intervals(list(drawn.values()), config.resamples, config.seed), strict=True))
    values = {}
    for key, score in measured.scores.items():
        low, high = intervals.get(key) or (None, None)
        values[key] = MetricValue(value=score.value, unit=score.measure.unit, n=score.n, low=low, high=high)
    return SampleFile(
        file=one.path.name, sha256=one.sha256, samples=measured.samples, values=values, undefined=measured.undefined
    )


def _over_seeds(files: list[SampleFile], measures: dict[str, Measure]) -> dict[str, MetricValue]:
    if len(files) == 1:
        return files[0].values
    values = {}
    for key in measures:
        found = [file.values[key] for file in files if key in file.values]
        if found:
            mean, interval = over_seeds([value.value for value in found])
            low, high = interval or (None, None)
            values[key] = MetricValue(
                value=mean, unit=found[0].unit, n=sum(value.n for value in found), low=low, high=high
            )
    return values


def _tests(config: EvaluateConfig, passes: dict[str, list[Pass]]) -> tuple[list[PairRecord], str | None]:
    if len(passes) < 2:
        return [], None
    if not config.paired:
        return [], "they were turned off, so that systems may have different prompts"
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
        {key: score.statistic for key, score in one.system.scores.items() if score.statistic is not None}
        for one in runs
    ]
    shared = [key for key in columns[0] if all(key in column for column in columns)]
    return {
        key: Statistic(
            sum(column[key].parts for column in columns[1:]) + columns[0][key].parts, columns[0][key].combine
        )
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
