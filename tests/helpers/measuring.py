"""Runs a metric over samples written as dictionaries, the way an evaluation does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from nextword.evaluation.metrics import Sample, Score, Setup, parse_metric, registry
from nextword.evaluation.metrics.tokens import GivenIds, Unit, Words
from tests.helpers.real_data import real_data

KOREAN = ("정말 재미있는 영화, 정말 좋았다!", "다시 보고 싶다. 다시 보고 싶다.", "별로였다")


class Vocabulary(GivenIds):
    """Given ids of a tokenizer whose size and special tokens are known."""

    def __init__(self, size: int | None = None, special: Iterable[int] = ()) -> None:
        self.size = size
        self.special = frozenset(special)


def measured(
    spec: str | Mapping[str, Any], samples: Iterable[Mapping[str, Any]], unit: Unit | None = None, human: bool = False
) -> dict[str, Score]:
    """What the metric finds; words are counted where no unit is given."""
    unit = Words() if unit is None else unit
    config = parse_metric(spec)
    metric = registry.get(config.metric)(config, Setup(unit=unit))
    for number, content in enumerate(samples, 1):
        sample = Sample.model_validate(dict(content)).bound(f"x.jsonl, line {number}", unit)
        metric.add(sample.as_human() if human else sample)
    return metric.result()


def values(
    spec: str | Mapping[str, Any], samples: Iterable[Mapping[str, Any]], unit: Unit | None = None, human: bool = False
) -> dict[str, float]:
    return {key: score.value for key, score in measured(spec, samples, unit, human).items()}


def korean_reviews(count: int) -> list[str]:
    with real_data("korean/nsmc_raw_test.tsv").open(encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t")[3] for line in islice(file, 1, count + 1)]
