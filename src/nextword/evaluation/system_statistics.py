"""From what the passes measured to a record: means over models, intervals, paired tests, ranking."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.metrics.metric import MetricConfig
from nextword.evaluation.metrics.parts import groups
from nextword.evaluation.metrics.parts.intervals import bootstrap_intervals, over_models
from nextword.evaluation.metrics.parts.paired_tests import PairedTest, holm, paired_tests
from nextword.evaluation.metrics.parts.statistic import Statistic
from nextword.evaluation.pairwise_wins import wins
from nextword.evaluation.sample_passes import ASKED, NOTHING_ASKED, Measured, Pass
from nextword.results.records import (
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


def recorded(
    config: EvaluateConfig,
    passes: dict[str, list[Pass]],
    human: Pass | None,
    left_out: dict[str, str],
    unit: str,
    metrics: list[MetricConfig],
    command: str,
) -> EvaluationResults:
    """The record of an evaluation.

    Args:
        config: What was asked for.
        passes: What was measured of each system, a pass a seed.
        human: What was measured of the references; None where there is no such row.
        left_out: Metrics that were not measured, with the reason.
        unit: What was counted.
        metrics: Settings of every metric.
        command: The command line that repeats this.
    """
    columns = [one.measured for runs in passes.values() for one in runs]
    measures = _measures([*columns, *([human.measured] if human else [])])
    systems = [
        _system(name, [_file(one, config) for one in runs], measures, config.draws) for name, runs in passes.items()
    ]
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
        values[key] = MetricValue(
            value=score.value, unit=score.measure.unit, n=score.n, low=low, high=high, note=score.note
        )
    return SampleFile(
        file=one.reading.path.name,
        sha256=one.reading.sha256,
        samples=one.measured.samples,
        plain_text=one.reading.plain_text,
        values=values,
        undefined=one.measured.undefined,
    )


def _system(name: str, files: list[SampleFile], measures: dict[str, Measure], draws: int) -> SystemRecord:
    """The system and its means over seeds; what some file lacks has no mean, which would flatter the system."""
    if len(files) == 1:
        return SystemRecord(name=name, files=files, values=files[0].values, draws=draws)
    values = {}
    for key in measures:
        found = [file.values[key] for file in files if key in file.values]
        if len(found) == len(files):
            mean, interval = over_models([value.value for value in found], draws)
            low, high = interval or (None, None)
            values[key] = MetricValue(
                value=mean, unit=found[0].unit, n=sum(value.n for value in found), low=low, high=high
            )
    return SystemRecord(name=name, files=files, values=values, draws=draws)


def _tests(config: EvaluateConfig, passes: dict[str, list[Pass]]) -> tuple[list[PairRecord], str | None]:
    if len(passes) < 2:
        return [], None
    if not config.paired:
        return [], "they were turned off, so that systems may have different prompts"
    if next(iter(passes.values()))[0].reading.prompts[0] == NOTHING_ASKED:
        asked = ", ".join(ASKED)
        return [], f"the samples have none of {asked} to be paired by; give the lines of all files the same ids"
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
    ranked = wins(values, goals, of_humans, voting)
    # without people's texts no measure of diversity has a goal, so there may be no vote
    return ranked if ranked.measures else None
