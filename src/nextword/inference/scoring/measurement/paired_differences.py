"""Every two models on the same texts: paired differences with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal

import numpy as np

from nextword.evaluation.metrics.parts.paired_tests import PairedTest, holm, paired_tests
from nextword.evaluation.metrics.parts.statistic import Statistic
from nextword.inference.scoring.measurement.unit_sums import TOKENS, UnitSums
from nextword.results.records.score_results import ScoreDifference

Place = tuple[str, str] | None
"""Key of a breakdown and a group of it; None: all tokens."""


def same_tokens(sums: Mapping[str, UnitSums]) -> bool:
    """Whether all models have the same tokens, so that numbers per token can be compared."""
    return len({one.digests[TOKENS] for one in sums.values()}) == 1


def differences(sums: Mapping[str, UnitSums]) -> list[ScoreDifference]:
    """Every two models, the later less the earlier: all tokens first, then by group.

    Models with the same tokens are compared by nats per token, also by group where both have the same groups. Others
    are compared by bits per byte. A model that gives a token probability 0 is compared in the other groups only.
    """
    pairs = [(later, earlier) for earlier, later in combinations(sums, 2)]
    found = [one for first, second in pairs for one in _of_pair(first, second, sums[first], sums[second])]
    overall = [one for one in found if one.group is None]
    return [*_corrected(overall), *_corrected([one for one in found if one.group is not None])]


def _of_pair(first: str, second: str, a: UnitSums, b: UnitSums) -> Iterator[ScoreDifference]:
    alike = a.digests[TOKENS] == b.digests[TOKENS]
    measure: Literal["nll", "bits_per_byte"] = "nll" if alike else "bits_per_byte"
    statistics: dict[Place, tuple[Statistic, Statistic]] = {None: (getattr(a, measure)(), getattr(b, measure)())}
    for key in a.groups if alike else ():
        if key in b.groups and a.digests[key] == b.digests[key]:
            of_b = b.of_groups(key)
            statistics |= {(key, name): (one, of_b[name]) for name, one in a.of_groups(key).items()}
    statistics = {
        place: pair for place, pair in statistics.items() if all(np.isfinite(one.parts).all() for one in pair)
    }
    tests = paired_tests([one for one, _ in statistics.values()], [other for _, other in statistics.values()])
    for (place, (one, other)), test in zip(statistics.items(), tests, strict=True):
        yield _difference(first, second, measure, place, one.value - other.value, test)


def _difference(
    first: str,
    second: str,
    measure: Literal["nll", "bits_per_byte"],
    place: Place,
    difference: float,
    test: PairedTest | None,
) -> ScoreDifference:
    breakdown, group = place or (None, None)
    low, high = (test.interval if test is not None else None) or (None, None)
    return ScoreDifference(
        first=first,
        second=second,
        measure=measure,
        breakdown=breakdown,
        group=group,
        difference=difference,
        low=low,
        high=high,
        p_permutation=None if test is None else test.p_permutation,
        p_holm=None,
    )


def _corrected(found: list[ScoreDifference]) -> list[ScoreDifference]:
    tested = [one for one in found if one.p_permutation is not None]
    corrected = iter(holm([one.p_permutation for one in tested if one.p_permutation is not None]))
    return [one if one.p_permutation is None else one.model_copy(update={"p_holm": next(corrected)}) for one in found]
