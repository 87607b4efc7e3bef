"""What people said, as text: rows of the page and of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nextword.results.records import MetricValue
from nextword.results.records.survey_results import SurveyResults
from nextword.results.report.parts import formats

SHARE_DECIMALS = 1


@dataclass(frozen=True)
class Share:
    """A share with its interval."""

    text: str
    interval: str


def share(value: MetricValue) -> Share:
    """In percent."""
    if value.low is None or value.high is None:
        return Share(_percent(value.value), "")
    return Share(_percent(value.value), formats.interval(_percent(value.low), _percent(value.high)))


def _percent(number: float) -> str:
    return formats.value(number, "share", SHARE_DECIMALS)


def agreements(results: SurveyResults) -> Iterator[tuple[str, str, str, str]]:
    """Question, alpha on each scale, share of equal pairs in percent, units judged twice or more."""
    for one in results.agreement:
        alphas = [
            f"{formats.NOTHING if value is None else f'{value:.2f}'} ({level})" for level, value in one.alpha.items()
        ]
        percent = formats.NOTHING if one.percent is None else _percent(one.percent)
        yield one.question, ", ".join(alphas), percent, formats.plain(one.units)


def correlated(results: SurveyResults) -> Iterator[tuple[str, str, str, str, str, str]]:
    """People's measure, automatic measure, Pearson, Spearman, Kendall, systems."""
    measures = results.judged.measures
    for one in results.correlations:
        people = measures[one.people]
        pearson, spearman, kendall = (
            formats.NOTHING if value is None else f"{value:z.2f}" for value in (one.pearson, one.spearman, one.kendall)
        )
        yield people.title, one.automatic, pearson, spearman, kendall, str(one.systems)
