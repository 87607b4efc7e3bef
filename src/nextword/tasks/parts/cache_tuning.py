"""Choosing the evaluation-time settings of a cache that was not trained: temperature and weight, on validation data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
WEIGHTS: tuple[float | None, ...] = (None, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
"""Share of the cache in a linear interpolation (Grave et al., 2017); ``None`` is the joint normalisation."""


def tune_cache(model: Any, nll: Callable[[], float]) -> dict[str, float | None]:
    """Tries every temperature and weight, leaves the model with the pair of smallest ``nll`` and returns it.

    Args:
        model: An attached model. Where its head has no ``temperature`` and ``weight``, nothing is done.
        nll: Negative log-likelihood of validation data under the model as it is set.

    Returns:
        The chosen settings, or ``{}`` where there is nothing to choose.

    Raises:
        ValueError: No setting gives a finite likelihood.
    """
    fields = type(model.next_word_head.config).model_fields
    if not {"temperature", "weight"} <= set(fields):
        return {}
    return best_settings(
        model, nll, ({"temperature": one, "weight": weight} for one, weight in product(TEMPERATURES, WEIGHTS))
    )


def best_settings(
    model: Any, nll: Callable[[], float], choices: Iterable[dict[str, float | None]]
) -> dict[str, float | None]:
    """Tries settings of the head, leaves the model with those of smallest ``nll`` and returns them.

    Raises:
        ValueError: No setting gives a finite likelihood.
    """
    best, chosen = math.inf, None
    for settings in choices:
        model.configure_head(**settings)
        value = nll()
        if value < best:
            best, chosen = value, settings
    if chosen is None:
        raise ValueError("tuning the cache: no temperature and weight gives a finite likelihood on the validation data")
    model.configure_head(**chosen)
    return chosen
