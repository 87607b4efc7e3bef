"""Makes the record of an evaluation from the scores of all samples files: means, intervals, paired tests, ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from nextword.evaluation.evaluation_settings import EvaluateConfig
from nextword.evaluation.metrics import metric
from nextword.evaluation.metrics.metric import MetricConfig
from nextword.evaluation.metrics.statistics import (
    PairedTest,
    Statistic,
    bootstrap_intervals,
    holm,
    over_models,
    paired_tests,
)
from nextword.evaluation.sample_passes import ASKED, NOTHING_ASKED, Pass, PassScores
from nextword.results.records import (
    Duel,
    Environment,
    EvaluationResults,
    Goal,
    Measure,
    MetricValue,
    PairRecord,
    Place,
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
    """Make the record of an evaluation from the scores of all samples files.

    ``passes`` maps the name of each system to its files with their scores. ``human`` has the scores of the human
    references. ``left_out`` maps each metric that the choice "all" left out to the reason. ``unit`` names the kind of
    tokens that are counted. ValueError if several systems are compared and ``config.wins`` names a value that was not
    computed.
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


def _measures(columns: list[PassScores]) -> dict[str, Measure]:
    found = {key: score.measure for column in columns for key, score in column.scores.items()}
    place = {group: number for number, group in enumerate(metric.ORDER)}
    ordered = sorted(found, key=lambda key: place.get(found[key].group, len(place)))
    return {key: found[key] for key in ordered}


def _file(one: Pass, config: EvaluateConfig) -> SampleFile:
    scores = one.measured.scores
    drawn = {key: score.statistic for key, score in scores.items() if score.statistic is not None}
    intervals = dict(zip(drawn, bootstrap_intervals(list(drawn.values()), config.resamples, config.seed), strict=True))
    values = {}
    for key, score in scores.items():
        low, high = intervals.get(key) or (None, None)
        unit = score.measure.unit
        values[key] = MetricValue(value=score.value, unit=unit, n=score.n, low=low, high=high, note=score.note)
    return SampleFile(
        file=one.reading.path.name,
        sha256=one.reading.sha256,
        samples=one.measured.samples,
        plain_text=one.reading.plain_text,
        values=values,
        undefined=one.measured.undefined,
    )


def _system(name: str, files: list[SampleFile], measures: dict[str, Measure], draws: int) -> SystemRecord:
    if len(files) == 1:
        return SystemRecord(name=name, files=files, values=files[0].values, draws=draws)
    values = {}
    for key in measures:
        found = [file.values[key] for file in files if key in file.values]
        if len(found) == len(files):  # a mean over only some files could make the system look better
            mean, interval = over_models([value.value for value in found], draws)
            low, high = interval or (None, None)
            n = sum(value.n for value in found)
            values[key] = MetricValue(value=mean, unit=found[0].unit, n=n, low=low, high=high)
    return SystemRecord(name=name, files=files, values=values, draws=draws)


def _tests(config: EvaluateConfig, passes: dict[str, list[Pass]]) -> tuple[list[PairRecord], str | None]:
    if len(passes) < 2:
        return [], None
    if not config.paired:
        return [], "paired tests were turned off"
    if next(iter(passes.values()))[0].reading.prompts[0] == NOTHING_ASKED:
        asked = ", ".join(ASKED)
        return (
            [],
            f"the samples must have one of {asked} for pairing (none given); add equal ids to the lines of all files",
        )
    found: list[tuple[str, str, str, PairedTest]] = []
    for first, second in combinations(passes, 2):
        a, b = _pooled(passes[first]), _pooled(passes[second])
        keys = [key for key in a if key in b and a[key].parts.shape == b[key].parts.shape]
        results = paired_tests(
            [a[key] for key in keys], [b[key] for key in keys], config.resamples, config.permutations, config.seed
        )
        found += [(key, first, second, test) for key, test in zip(keys, results, strict=True) if test is not None]
    return pair_records(
        found
    ), None if found else "no metric is a sum over samples, or there are fewer than two samples"


def pair_records(tests: Sequence[tuple[str, str, str, PairedTest]]) -> list[PairRecord]:
    """Record ``tests``, tuples (measure, first system, second system, test), with Holm's correction over all tests."""
    records = []
    corrected = holm([test.p_permutation for *_, test in tests])
    for (measure, first, second, test), p in zip(tests, corrected, strict=True):
        low, high = test.interval or (None, None)
        records.append(
            PairRecord(
                measure=measure, first=first, second=second, difference=test.difference, low=low, high=high,
                p_bootstrap=test.p_bootstrap, p_permutation=test.p_permutation, p_holm=p,
            )
        )  # fmt: skip
    return records


def _pooled(runs: list[Pass]) -> dict[str, Statistic]:
    # a prompt is one unit of resampling, for any number of seeds
    columns = [
        {key: score.statistic for key, score in one.measured.scores.items() if score.statistic is not None}
        for one in runs
    ]
    shared = [key for key in columns[0] if all(key in column for column in columns)]
    # the mean and not the sum, so that a prompt has the same weight in every system and systems can be swapped
    return {
        key: Statistic(np.mean([column[key].parts for column in columns], axis=0), columns[0][key].combine)
        for key in shared
    }


def _wins(
    config: EvaluateConfig,
    systems: list[SystemRecord],
    human: SampleFile | None,
    measures: dict[str, Measure],
    columns: list[PassScores],
) -> Wins | None:
    if len(systems) < 2:
        return None
    goals: dict[str, Goal] = {key: one.goal for key, one in measures.items() if one.goal is not None}
    unknown = [key for key in config.wins or () if key not in measures]
    if unknown:
        raise ValueError(f"wins: {', '.join(unknown)} must be computed values; computed: {', '.join(measures)}")
    voting = config.wins or list(dict.fromkeys(key for column in columns for key in column.votes))
    values = {system.name: {key: value.value for key, value in system.values.items()} for system in systems}
    of_humans = {} if human is None else {key: value.value for key, value in human.values.items()}
    ranked = wins(values, goals, of_humans, voting)
    # without human references no diversity metric has a goal, so there may be no votes
    return ranked if ranked.measures else None


# -- Duels: a system beats another if it is better in more metrics than the other (F2-Softmax, table 9).

Values = Mapping[str, float]
"""Values of one system or of the human references, by key of the metric."""


def wins(
    systems: Mapping[str, Values], goals: Mapping[str, Goal], human: Values, voting: Sequence[str] | None = None
) -> Wins:
    """Compare all pairs of ``systems``, and rank the systems by the comparisons that they won.

    ``systems`` maps the name of each system to its values by metric key; ``human`` has the values of the human
    references. In a pair, each metric that both systems have is a vote for the better system, and the system with more
    votes wins. A metric in which both are equally good has no vote.

    ``goals`` maps metric keys to the better values: "lower", "higher" or "human" (closer to the human value; there is a
    vote only if ``human`` has this value). A metric without a goal has no vote. ``voting`` has the keys of the
    metrics that count as votes; None: all metrics with a goal.

    Returns:
        The comparisons of all pairs, in the order of ``systems``, and the ranking: more wins first, then fewer losses.
        Systems with equal wins and losses share a rank.

    >>> table = {"a": {"ppl": 20.0, "rep": 0.1}, "b": {"ppl": 25.0, "rep": 0.5}}
    >>> result = wins(table, {"ppl": "lower", "rep": "human"}, {"rep": 0.2})
    >>> result.duels[0].won, [place.name for place in result.ranking]
    (2, ['a', 'b'])
    """
    keys = [key for key in (goals if voting is None else voting) if key in goals]
    usable = [key for key in keys if goals[key] != "human" or key in human]
    duels = []
    for first, second in combinations(systems, 2):
        count = {-1: 0, 0: 0, 1: 0}
        for key in usable:
            if key in systems[first] and key in systems[second]:
                a, b = (_cost(systems[name][key], goals[key], human.get(key)) for name in (first, second))
                # with a tolerance, because rounding must not decide (0.3 and 0.1 are equally far from 0.2)
                count[0 if math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) else (a < b) - (a > b)] += 1
        duels.append(Duel(first=first, second=second, won=count[1], lost=count[-1], tied=count[0]))
    voted = [key for key in usable if any(key in values for values in systems.values())]
    return Wins(measures=voted, duels=duels, ranking=ranking(duels, list(systems)))


def ranking(duels: Sequence[Duel], systems: Sequence[str]) -> list[Place]:
    """Rank ``systems`` by their wins in ``duels``: more wins first, then fewer losses.

    A duel is the comparison of two systems. It does not count if one of them is not in ``systems``. Systems with equal
    wins and losses share a rank.
    """
    won, lost = dict.fromkeys(systems, 0), dict.fromkeys(systems, 0)
    for duel in duels:
        if duel.won != duel.lost and duel.first in won and duel.second in won:
            better, worse = (duel.first, duel.second) if duel.won > duel.lost else (duel.second, duel.first)
            won[better] += 1
            lost[worse] += 1
    standing = {name: (-won[name], lost[name]) for name in systems}
    ranks = {name: 1 + sum(other < standing[name] for other in standing.values()) for name in systems}
    order = sorted(systems, key=standing.__getitem__)
    return [Place(rank=ranks[name], name=name, wins=won[name], losses=lost[name]) for name in order]


def _cost(value: float, goal: Goal, human: float | None) -> float:
    if goal == "human":
        assert human is not None, "a metric without a human value does not count"
        return abs(value - human)
    return value if goal == "lower" else -value
