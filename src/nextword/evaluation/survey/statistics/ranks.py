"""Ranks within what one judge read together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nextword.evaluation.survey.judgements import Scores


def ranks_within(values: Mapping[str, Scores]) -> dict[str, Scores]:
    """Each system's values replaced by their ranks among the systems, for each judge and item; 1 is the highest.

    Equal values share the middle of their ranks. What a judge said of one system only has no rank and is left out.
    """
    from scipy.stats import rankdata

    cells: dict[tuple[int, int], dict[str, float]] = {}
    for system, scores in values.items():
        for value, item, judge in zip(scores.values, scores.items, scores.judges, strict=True):
            cells.setdefault((int(item), int(judge)), {})[system] = float(value)
    rows: dict[str, list[tuple[float, int, int]]] = {system: [] for system in values}
    for (item, judge), cell in cells.items():
        if len(cell) > 1:
            for system, rank in zip(cell, rankdata([-value for value in cell.values()]), strict=True):
                rows[system].append((float(rank), item, judge))
    return {
        system: Scores(
            np.array([rank for rank, _, _ in found]),
            np.array([item for _, item, _ in found], dtype=np.int64),
            np.array([judge for _, _, judge in found], dtype=np.int64),
        )
        for system, found in rows.items()
    }
