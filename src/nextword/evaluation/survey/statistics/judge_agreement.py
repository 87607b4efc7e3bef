"""How far judges agree: Krippendorff's alpha, and the share of pairs of judges who say the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from nextword.results.records.survey_files import Level
from nextword.runtime import optional_libraries as extras


def alpha(codes: Float[np.ndarray, "J U"], level: Level) -> float | None:
    """Krippendorff's alpha (Krippendorff, 2004, ch. 11), by the ``krippendorff`` package.

    Args:
        codes: What each judge said of each unit, as a number; NaN where nothing.
        level: Scale of the answers.

    Returns:
        1 for perfect agreement, 0 for that of chance; None where nothing was judged twice or all answers are the same.

    Raises:
        ValueError: The package is missing.
    """
    if extras.missing(["krippendorff"]):
        raise ValueError(f"agreement: must have the package krippendorff (missing); {extras.install('survey')}")
    import krippendorff

    twice = codes[:, (~np.isnan(codes)).sum(axis=0) > 1]
    if len(np.unique(twice[~np.isnan(twice)])) < 2:
        return None
    return float(krippendorff.alpha(reliability_data=twice, level_of_measurement=level))


def percent_agreement(codes: Float[np.ndarray, "J U"]) -> float | None:
    """Share of pairs of judges with the same answer about the same unit; None where nothing was judged twice.

    >>> percent_agreement(np.array([[1.0, 2.0, np.nan], [1.0, 3.0, 2.0], [1.0, 3.0, np.nan]]))
    0.6666666666666666
    """
    same = pairs = 0.0
    for column in codes.T:
        known = column[~np.isnan(column)]
        counts = np.unique(known, return_counts=True)[1]
        same += float((counts * (counts - 1)).sum())
        pairs += len(known) * (len(known) - 1)
    return same / pairs if pairs else None


def coded(
    answers: Sequence[tuple[str, tuple[str, str], str]], values: Sequence[str], level: Level
) -> Float[np.ndarray, "J U"]:
    """Answers as a table of judges and units.

    Args:
        answers: Judge, unit (with its item) and value.
        values: All values of the question, in order; their numbers where the scale is that of numbers.
        level: Scale of the answers.
    """
    judges = {name: at for at, name in enumerate(dict.fromkeys(judge for judge, _, _ in answers))}
    units = {name: at for at, name in enumerate(dict.fromkeys(unit for _, unit, _ in answers))}
    numbers = {value: float(value) if level == "interval" else float(at) for at, value in enumerate(values)}
    table = np.full((len(judges), len(units)), np.nan)
    for judge, unit, value in answers:
        table[judges[judge], units[unit]] = numbers[value]
    return table
