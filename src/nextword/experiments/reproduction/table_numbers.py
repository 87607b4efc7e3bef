"""Look up our number for a cell of a paper's table, by its address in the results of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nextword.evaluation.metrics import metric_of
from nextword.evaluation.metrics.statistics import over_seeds
from nextword.evaluation.system_statistics import ranking
from nextword.experiments.reproduction.experiment import setting
from nextword.experiments.reproduction.paper import Address
from nextword.results.records import EvaluationResults, MetricValue, Results, RunRecord, SampleFile
from nextword.results.records.reproduced_table import NO_SEED, RanExperiment
from nextword.settings.registry import did_you_mean

HUMAN = "human"
"""Name of the human references in place of a method."""


@dataclass(frozen=True)
class ExperimentResults:
    """Settings and results of one experiment.

    Attributes:
        settings: Settings of the comparison, with defaults.
        results: Results of the runs; ``None``: the experiment was not run, because only settings and data are needed.
        record: Facts about the runs for the table's record, such as seeds and minutes.
        data: Function that returns the task's description of its data, used if the experiment was not run.
    """

    settings: Mapping[str, Any]
    results: Results | None = None
    record: RanExperiment | None = None
    data: Callable[[], Mapping[str, Any]] = dict


class MissingValueError(Exception):
    """Raised if we do not have a number for a cell. The message gives the reason to the reader of the table."""


@dataclass(frozen=True)
class CellValue:
    """Our number or text for one cell.

    Attributes:
        by_seed: A mapping from training seed to our number, in the paper's unit; empty for text.
        low: Lower end of the 95 % interval over seeds; with one seed, of the measurement's interval.
        high: Upper end of the interval.
        text: Text instead of a number.
    """

    by_seed: Mapping[str, float] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    text: str | None = None

    @property
    def value(self) -> float | str | None:
        """The mean over seeds, or the text."""
        if self.text is not None:
            return self.text
        return over_seeds(list(self.by_seed.values()))[0]


def cell_value(address: Address, one: ExperimentResults) -> CellValue:
    """Return our number at ``address`` in the experiment ``one``. Numbers from settings and data do not need a run.

    Raises:
        MissingValueError: If there is no number at this address.
    """
    measure = address.measure or ""
    kind, _, name = measure.partition(".")
    results = one.results
    if kind in OF_SETTINGS:
        return _plain(OF_SETTINGS[kind](one.settings, name), address)
    if kind == "data":
        return _plain((one.data() if results is None else results.data).get(name), address)
    if results is None:
        raise MissingValueError("the experiment was not run")
    runs = [run for run in results.runs if run.method == address.method]
    if address.method == HUMAN and not address.decoding:
        raise MissingValueError("the human references have no probabilities")
    if address.method == HUMAN:
        values = {NO_SEED: _value(_texts(address, results).human, measure)}
    elif not runs:
        raise MissingValueError(_no_method(address, results))
    elif kind == "cost":
        values = {str(run.seed): _cost(run, name) for run in runs}
    elif kind == "words":
        return CellValue(text=_first_words(runs[0], name))
    elif kind in ("duel", "ranking"):
        return _won(_texts(address, results), address)
    elif not address.decoding:
        values = {str(run.seed): _measured(run, measure) for run in runs}
    else:
        values = _of_texts(_texts(address, results), address, runs)
    return _over_seeds(values, address.factor or 1.0)


def _length(settings: Mapping[str, Any], name: str) -> str:
    """The length of a training in words, because recipes use epochs or steps."""
    epochs, steps = (setting(settings, f"{name}.{unit}") for unit in ("epochs", "steps"))
    return f"{steps:,} steps" if epochs is None else f"{epochs:g} epochs"


def _batch(settings: Mapping[str, Any], name: str) -> int | None:
    """Rows per optimiser step, including gradient accumulation."""
    rows, batches = (setting(settings, f"{name}.{one}") for one in ("batch_size", "gradient_accumulation_steps"))
    return None if rows is None or batches is None else int(rows * batches)


def _ratio(settings: Mapping[str, Any], names: str) -> float | None:
    above, below = (setting(settings, name) for name in names.split("/"))
    return None if above is None or below is None else above / below


OF_SETTINGS: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
    "setting": setting,
    "length": _length,
    "batch": _batch,
    "ratio": _ratio,
    "always": lambda settings, words: words,  # what no setting says, since it is never anything else: "AdamW"
}
"""Kinds of addresses that need no method and no run, by prefix, with the functions that read them."""


def added(first: CellValue, second: CellValue) -> CellValue:
    """Sum of two counts on two data sets, seed by seed.

    Raises:
        MissingValueError: If one of them is text, or they have no seed in common.
    """
    seeds = [seed for seed in first.by_seed if seed in second.by_seed]
    if first.text is not None or second.text is not None or not seeds:
        raise MissingValueError("its two numbers cannot be added")
    sums = {seed: first.by_seed[seed] + second.by_seed[seed] for seed in seeds}
    low, high = over_seeds(list(sums.values()))[1] or (None, None)
    return CellValue(sums, low, high)


def _plain(value: Any, address: Address) -> CellValue:
    """The value of a setting or of the data's description: a number in the paper's unit, or text."""
    if value is None:
        kind, _, path = (address.measure or "").partition(".")
        raise MissingValueError(f"{path} is not set" if kind == "setting" else f"{address.measure} does not exist")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return CellValue({NO_SEED: float(value) * (address.factor or 1.0)})
    return CellValue(text=str(value))


def _cost(run: RunRecord, name: str) -> MetricValue:
    value = getattr(run.cost, name, None)
    if value is None:
        raise MissingValueError(f"cost.{name} was not measured")
    return MetricValue(value=float(value), unit=name, n=1)


def _first_words(run: RunRecord, name: str) -> str:
    """The correct words after a prompt and the method's top predictions: "Paris and Italy: Paris, Rome"."""
    distribution, _, number = name.partition(".")
    shown = [one for one in run.evaluation.examples if one.setting == distribution]
    if not shown:
        raise MissingValueError(f"no top predictions of '{distribution}' were kept")
    example = shown[int(number) - 1]
    return f"{' and '.join(example.expected)}: {', '.join(word.word for word in example.top)}"


def _measured(run: RunRecord, measure: str) -> MetricValue:
    evaluation = run.evaluation
    if measure in evaluation.metrics:
        return evaluation.metrics[measure]
    if measure in evaluation.undefined:
        raise MissingValueError(f"{measure} is {evaluation.undefined[measure]}")
    raise MissingValueError(f"{measure} was not measured.{did_you_mean(measure, evaluation.metrics)}")


def _texts(address: Address, results: Results) -> EvaluationResults:
    if address.decoding is None or address.decoding not in results.texts:
        known = ", ".join(f"'{title}'" for title in results.texts) or "none"
        raise MissingValueError(f"no texts were generated with '{address.decoding}' (available: {known})")
    return results.texts[address.decoding]


def _value(file: SampleFile | None, measure: str) -> MetricValue:
    if file is None:
        raise MissingValueError("there is no row of human references")
    if measure in file.values:
        return file.values[measure]
    owner = metric_of(measure)
    undefined = next((why for name, why in file.undefined.items() if name == owner or measure.startswith(name)), None)
    raise MissingValueError(undefined or f"{measure} was not measured of these texts")


def _of_texts(texts: EvaluationResults, address: Address, runs: list[RunRecord]) -> dict[str, MetricValue]:
    """Mean over the sampling seeds of each trained model's texts; without training, all texts belong to one model."""
    system = next((one for one in texts.systems if one.name == address.method), None)
    if system is None:
        raise MissingValueError(f"the texts of '{address.method}' were not evaluated")
    measure = address.measure or ""
    models = [[_value(file, measure) for file in files] for files in system.models]
    seeds = [str(run.seed) for run in runs]
    if len(models) == 1:
        return dict.fromkeys(seeds, system.values[measure])
    means = [
        MetricValue(
            value=over_seeds([one.value for one in draws])[0], unit=draws[0].unit, n=sum(one.n for one in draws)
        )
        for draws in models
    ]
    return dict(zip(seeds, means, strict=True))


def _won(texts: EvaluationResults, address: Address) -> CellValue:
    if texts.wins is None:
        raise MissingValueError("there are no pairwise comparisons, because only one method generated texts")
    method, (kind, _, name) = str(address.method), (address.measure or "").partition(".")
    if kind == "ranking":
        places = texts.wins.ranking if address.among is None else ranking(texts.wins.duels, address.among)
        place = next((one for one in places if one.name == method), None)
        if place is None or not hasattr(place, name):
            raise MissingValueError(f"'{method}' has no {name} in the ranking")
        return CellValue({NO_SEED: float(getattr(place, name))})
    for duel in texts.wins.duels:
        if (duel.first, duel.second) == (method, name):
            return CellValue(text=f"{duel.won}-{duel.lost}")
        if (duel.second, duel.first) == (method, name):
            return CellValue(text=f"{duel.lost}-{duel.won}")
    raise MissingValueError(f"'{method}' and '{name}' were not compared")


def _over_seeds(values: Mapping[str, MetricValue], factor: float) -> CellValue:
    by_seed = {seed: one.value * factor for seed, one in values.items()}
    _, interval = over_seeds(list(by_seed.values()))
    if interval is None:
        (one,) = values.values()
        interval = one.interval and (one.interval[0] * factor, one.interval[1] * factor)
    low, high = (None, None) if interval is None else sorted(interval)
    return CellValue(by_seed, low, high)


def _no_method(address: Address, results: Results) -> str:
    failure = next((one for one in results.failures if one.method == address.method), None)
    if failure is not None:
        return f"the run failed: {failure.reason}"
    if address.method is None:
        return "the table names no method for this cell"
    known = dict.fromkeys(run.method for run in results.runs)
    return f"the experiment has no method '{address.method}'.{did_you_mean(address.method, known)}"
