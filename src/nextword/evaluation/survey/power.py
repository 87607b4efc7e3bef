"""Which difference a planned survey can show, said before anyone is paid."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nextword.evaluation.survey.survey_settings import SurveyConfig

LEVEL = 0.05
"""Of the two-sided test."""


def detectable_difference(config: SurveyConfig, items: int | None = None, judges: int | None = None) -> float:
    """The smallest true difference between two systems that the wanted share of surveys finds.

    One judge's difference on one item varies with the item, which all its judges share, and with the judge. With n
    items of J judges its mean has the variance ``spread^2 (agreement / n + (1 - agreement) / (n J))``.

    Args:
        config: The survey, with its assumptions.
        items: n, in place of the planned number.
        judges: J, in place of the planned number.

    >>> round(detectable_difference(SurveyConfig(items=100, judges=3)), 3)
    0.205
    """
    from scipy.stats import norm

    n, each = items or config.items, judges or config.judges
    spread, shared = spread_of(config), config.power.agreement
    error = spread * math.sqrt(shared / n + (1 - shared) / (n * each))
    return float((norm.ppf(1 - LEVEL / 2) + norm.ppf(config.power.power)) * error)


def spread_of(config: SurveyConfig) -> float:
    """The spread that is assumed: the recipe's, or what is usual for the kind."""
    return config.typical_spread if config.power.spread is None else config.power.spread


def statement(config: SurveyConfig, unit: str) -> Iterator[str]:
    """What can be shown, in sentences.

    Args:
        config: The survey.
        unit: What a difference is measured in.
    """
    power = f"{config.power.power:.0%}".replace("%", " %")
    yield (
        f"{config.items} items with {config.judges} judges each can show a difference of "
        f"{detectable_difference(config):.2g} ({unit}) in {power} of such surveys, at p < {LEVEL}."
    )
    others = [
        (2 * config.items, config.judges),
        (config.items, config.judges + 2),
        (max(config.items // 2, 2), config.judges),
    ]
    told = (f"{items} x {judges}: {detectable_difference(config, items, judges):.2g}" for items, judges in others)
    yield f"Other sizes (items x judges): {'; '.join(told)}."
    yield (
        f"Assumed: a spread of {spread_of(config):.2g} from answer to answer, of which judges share "
        f"{config.power.agreement:.0%} (power.spread, power.agreement)."
    ).replace("%", " %")
