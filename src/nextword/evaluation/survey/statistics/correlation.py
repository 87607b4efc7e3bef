"""Do automatic measures order systems as people do?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nextword.evaluation.survey.kinds.rating import REFERENCE
from nextword.results.records import EvaluationResults, MetricValue
from nextword.results.records.survey_results import Correlation

FEWEST = 3
"""Systems from which on a correlation says anything."""


def correlations(people: EvaluationResults, automatic: EvaluationResults) -> tuple[list[Correlation], str | None]:
    """Over the systems that both have, by name.

    Where judges rated the reference too, its automatic measures are those of the human row: it is one system more
    for every measure that the human row has.

    Args:
        people: What people said.
        automatic: What ``nextword evaluate`` measured.

    Returns:
        A correlation for each two measures, and why there is none.
    """
    measured = _measured(automatic)
    common = [one.name for one in people.systems if one.name in measured]
    if len(common) < FEWEST:
        return [], (
            f"{len(common)} systems have both ({', '.join(common) or 'none'}): a correlation over systems needs "
            f"{FEWEST} or more of the same names"
        )
    return list(_each(people, automatic, measured, common)), None


def _measured(automatic: EvaluationResults) -> dict[str, dict[str, MetricValue]]:
    """What was measured of each system; people's own texts have the name that they have in a survey."""
    human = {} if automatic.human is None else {REFERENCE: automatic.human.values}
    return human | {one.name: one.values for one in automatic.systems}


def _each(
    people: EvaluationResults,
    automatic: EvaluationResults,
    measured: dict[str, dict[str, MetricValue]],
    common: list[str],
) -> Iterator[Correlation]:
    from scipy.stats import kendalltau, pearsonr, spearmanr

    said = {one.name: one.values for one in people.systems}
    for key in people.measures:
        for other, measure in automatic.measures.items():
            names = [name for name in common if key in said[name] and other in measured[name]]
            if len(names) < FEWEST:
                continue
            x = np.array([said[name][key].value for name in names])
            y = np.array([measured[name][other].value for name in names])
            varies = np.ptp(x) > 0 and np.ptp(y) > 0
            found = [float(of(x, y).statistic) if varies else None for of in (pearsonr, spearmanr, kendalltau)]
            yield Correlation(
                people=key, automatic=measure.title, systems=len(names),
                pearson=found[0], spearman=found[1], kendall=found[2],
            )  # fmt: skip
