"""Finds the best temperature and weight of stored tokens, such as those of a cache, in one pass over a text.

Let ``z`` be the score of a token, ``Z`` the log of the softmax's normaliser, ``s_j`` the scores of the S stored tokens
``x_j``, and ``t`` their temperature. Besides ``z`` and ``Z``, two numbers determine the token's probability:

    hits(t) = log sum_{j: x_j = token} exp(s_j / t)        mass(t) = log sum_j exp(s_j / t)

The token's log-probability is ``log((1 - w) exp(z - Z) + w exp(hits - mass))`` if the stored tokens have the weight
``w``, and ``log(exp z + exp hits) - log(exp Z + exp mass)`` if they are jointly normalised with the softmax. ``hits``
and ``mass`` are computed at some temperatures. Minus its largest term ``s_j / t``, each of the two is smooth in
``log t`` and lies in [0, log S], so a spline interpolates between these temperatures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution import NextToken, SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores, Stored
from nextword.heads.context import Context

# -- Choosing a head's settings without training, in one pass over held-out tokens.


@dataclass(frozen=True, eq=False)
class Optimum:
    """The settings under which held-out tokens are most likely.

    Attributes:
        settings: A mapping from the name of each chosen setting to its value.
        log_probs: Log-probability of each token under these settings, in nats.
        alone: Log-probability of each token without the head's contribution, for example under the softmax alone.
        silent: Settings under which the head has no effect; None if there are no such settings.
        curve: All settings that were tried, each with its loss in nats per token.
    """

    settings: dict[str, Any]
    log_probs: Float[np.ndarray, "N"]
    alone: Float[np.ndarray, "N"]
    silent: dict[str, Any] | None
    curve: list[tuple[dict[str, Any], float]]


class Calibration(ABC):
    """Reads held-out tokens once, then computes their likelihood under any settings of the head.

    ``Head.calibration`` makes a new object for each pass. Memory per token depends neither on the number of tried
    settings nor on that of stored tokens. The current values of the chosen settings do not matter.
    """

    @abstractmethod
    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Keeps statistics of the tokens ``ids``; returns their log-probabilities without the head's contribution."""

    @abstractmethod
    def optimum(self) -> Optimum:
        """The best settings for all tokens read so far.

        Raises:
            ValueError: If no token was read.
        """

    def apply(self, model: Any, settings: Mapping[str, Any]) -> None:
        """Gives the head of ``model`` these ``settings``, such as those of an optimum."""
        model.configure_head(**settings)


# -- Temperature and weight of stored tokens, such as those of a cache.


PER_OCTAVE = 4
"""Number of temperatures computed per octave. Powers of two are among them."""

_COLDER, _WARMER = 6, 5
"""Numbers of octaves of temperatures that are tried below and above the usual difference between a score and the
largest score. At the lowest temperature, the nearest entry has all the mass; at the highest, all entries have the same
mass."""

_AT_ONCE = 1 << 20
"""Number of similarities per chunk of positions, small enough to stay in the processor's cache."""

_DIGITS, _ROUNDED = 4, 1e-3
"""Significant digits of chosen settings, and the relative change that this rounding may cause."""

Parts = Callable[[Context], tuple[NextToken, Stored]]
"""What a head mixes: a distribution, and stored tokens with their scores at temperature 1."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Statistics of N held-out tokens at G temperatures. An entry is a stored token.

    Attributes:
        alone: Log-probability under the distribution without stored tokens.
        normaliser: Log of the distribution's normaliser; 0 if the head cannot be jointly normalised.
        peak: Largest score of a visible entry; 0 if no entry is visible.
        gap: ``peak`` minus the largest score of a visible entry with the token; inf if there is none.
        seen: Whether any entry is visible; if not, only the distribution is used.
        hits: ``hits(t)`` of the module's formula, minus its largest term.
        mass: ``mass(t)`` of the module's formula, minus its largest term.
    """

    alone: Float[np.ndarray, "N"]
    normaliser: Float[np.ndarray, "N"]
    peak: Float[np.ndarray, "N"]
    gap: Float[np.ndarray, "N"]
    seen: Bool[np.ndarray, "N"]
    hits: Float[np.ndarray, "N G"]
    mass: Float[np.ndarray, "N G"]


class CopyCalibration(Calibration):
    """Chooses the temperature of stored tokens and how they are mixed with another distribution.

    The weight is exact, because a mixture's log-likelihood is concave in the weight. The temperature is the best of
    those computed, refined by interpolation between its neighbours.

    ``parts`` returns the other distribution and the stored tokens at a context. ``interpolated``: whether the head can
    mix them with a weight. ``joint``: whether it can normalise them jointly. If both are true, ``optimum`` chooses the
    better way; for joint normalisation, the setting ``weight`` is None.
    """

    def __init__(self, parts: Parts, *, interpolated: bool, joint: bool) -> None:
        self._parts = parts
        self._interpolated, self._joint = interpolated, joint
        self._temperatures: Float[np.ndarray, "G"] | None = None
        self._read: list[Copies] = []
        self._copies: Copies | None = None

    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        base, stored = self._parts(context)
        if self._joint:
            assert isinstance(base, SoftmaxDistribution), "a jointly normalised head refuses others"
            alone, normaliser = base.log_prob_and_normaliser(ids)
        else:
            alone = base.log_prob(ids)
            normaliser = torch.zeros(len(alone), device=alone.device)
        rows = max(1, _AT_ONCE // max(1, stored.visible.shape[1]))
        for begin in range(0, len(ids), rows):
            part = slice(begin, begin + rows)
            entries = stored.map(lambda of_rows, part=part: of_rows[part]).scored()  # type: ignore[misc]
            self._read.append(self._kept(entries, ids[part], alone[part], normaliser[part]))
        return alone

    def _kept(self, entries: CopyScores, ids: Tensor, alone: Tensor, normaliser: Tensor) -> Copies:
        relative, peak = entries.relative()
        scores = relative.scores.masked_fill(~entries.visible, -torch.inf)
        if self._temperatures is None and entries.visible.any():
            self._temperatures = _around(float(scores[entries.visible].double().square().mean().sqrt()))
        temperatures = torch.from_numpy(_around(1.0) if self._temperatures is None else self._temperatures)
        held = [_held_masses(relative, token, temperatures) for token in ids.unbind(1)]
        gap, hits = (torch.stack(both, 1).flatten(0, 1) for both in zip(*held, strict=True))
        seen, mass = entries.any_visible(), _masses(scores, temperatures)
        normaliser, peak, seen, mass = (
            one.repeat_interleave(ids.shape[1], 0) for one in (normaliser, peak, seen, mass)
        )
        numbers = {"alone": alone.flatten(), "normaliser": normaliser, "peak": peak, "gap": gap}
        exact = {name: one.cpu().double().numpy() for name, one in numbers.items()}
        mass = mass.masked_fill(~seen[:, None], 0.0)
        return Copies(**exact, seen=seen.cpu().numpy(), hits=hits.cpu().numpy(), mass=mass.cpu().numpy())

    @property
    def copies(self) -> Copies:
        """The statistics of all tokens read so far; raises ValueError if no token was read."""
        if self._read:
            parts = [*([self._copies] if self._copies else []), *self._read]
            columns = ([getattr(part, column.name) for part in parts] for column in fields(Copies))
            self._copies = Copies(*map(np.concatenate, columns))
            self._read = []
        if self._copies is None or not len(self._copies.alone):
            raise ValueError("texts: must have at least one token (none given); give some text")
        return self._copies

    @property
    def temperatures(self) -> Float[np.ndarray, "G"]:
        return _around(1.0) if self._temperatures is None else self._temperatures

    def log_probs(self, temperature: float, weight: float | None) -> Float[np.ndarray, "N"]:
        """Log-probability of each token read.

        Args:
            temperature: A value between the first and the last of ``temperatures``; otherwise ValueError is raised.
            weight: Share of the stored tokens; None: jointly normalised.
        """
        copies = self.copies
        hits, mass = self._log_masses(temperature)
        if weight is None:
            dense, masses = copies.alone + copies.normaliser, np.where(copies.seen, mass, -np.inf)
            joint: Float[np.ndarray, "N"] = np.logaddexp(dense, hits) - np.logaddexp(copies.normaliser, masses)
            return joint
        with np.errstate(divide="ignore"):
            alone, copied = copies.alone + np.log1p(-weight), hits - mass + np.log(weight)
        return np.where(copies.seen, np.logaddexp(alone, copied), copies.alone)

    def best_weight(self, temperature: float) -> float:
        """The weight of the stored tokens under which the tokens read are most likely at ``temperature``."""
        hits, mass = self._log_masses(temperature)
        seen = self.copies.seen
        return best_weight(self.copies.alone[seen], (hits - mass)[seen])

    def _log_masses(self, temperature: float) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
        from scipy.interpolate import make_interp_spline

        copies, known = self.copies, self.temperatures
        low, high = float(known[0]), float(known[-1])
        if not low * (1 - _ROUNDED) <= temperature <= high * (1 + _ROUNDED):
            raise ValueError(
                f"temperature: must be from {low:.3g} to {high:.3g}, the range that matters for these states "
                f"({temperature:.3g} given)"
            )
        # the weight of each computed temperature at this one; a spline is linear in the values that it interpolates
        share = make_interp_spline(np.log2(known), np.eye(len(known)), k=5)(math.log2(temperature))
        hits = copies.hits @ share + (copies.peak - copies.gap) / temperature
        return hits, copies.mass @ share + copies.peak / temperature

    def optimum(self) -> Optimum:
        forms = [self.best_weight] * self._interpolated + [_no_weight] * self._joint
        curves = [[(float(one), form(one)) for one in self.temperatures] for form in forms]
        nats = [[self._nats(*tried) for tried in curve] for curve in curves]
        best = min(range(len(forms)), key=lambda number: min(nats[number]))
        temperature = self._refined(forms[best], int(np.argmin(nats[best])))
        temperature, weight = _rounded(temperature), forms[best](temperature)
        if weight is not None and _rounded(weight) < 1:  # a weight below 1 must not be rounded to 1
            weight = _rounded(weight)
        curve = [(self._settings(*one), value) for of_form in zip(curves, nats, strict=True)
                 for one, value in zip(*of_form, strict=True)]  # fmt: skip
        silent = {"weight": 0.0} if self._interpolated else None
        log_probs = self.log_probs(temperature, weight)
        return Optimum(self._settings(temperature, weight), log_probs, self.copies.alone, silent, curve)

    def _settings(self, temperature: float, weight: float | None) -> dict[str, Any]:
        return {"temperature": temperature} | ({"weight": weight} if self._interpolated else {})

    def _nats(self, temperature: float, weight: float | None) -> float:
        possible = np.isfinite(self.copies.alone) | np.isfinite(self.copies.gap)
        return -float(self.log_probs(temperature, weight)[possible].mean())

    def _refined(self, form: Callable[[float], float | None], best: int) -> float:
        from scipy.optimize import minimize_scalar

        octaves = np.log2(self.temperatures)
        bounds = octaves[max(best - 1, 0)], octaves[min(best + 1, len(octaves) - 1)]
        found = minimize_scalar(lambda octave: self._nats(2**octave, form(2**octave)), bounds=bounds, method="bounded")
        return float(2**found.x)


def _no_weight(_: float) -> None:
    return None


def _around(scale: float) -> Float[np.ndarray, "G"]:
    """Temperatures around a scale of scores, on one fixed grid that contains the powers of two."""
    middle = round(PER_OCTAVE * math.log2(scale)) if scale > 0 else 0
    steps = np.arange(middle - PER_OCTAVE * _COLDER, middle + PER_OCTAVE * _WARMER + 1)
    return 2.0 ** (steps / PER_OCTAVE)


def _masses(scores: Float[Tensor, "N S"], temperatures: Float[Tensor, "G"]) -> Float[Tensor, "N G"]:
    """``log sum exp(scores / t)``; the largest score of a row is 0."""
    at_once = torch.empty_like(scores)
    sums = [torch.mul(scores, 1 / one, out=at_once).exp_().sum(1) for one in temperatures.tolist()]
    return torch.stack(sums, 1).log()


def _held_masses(
    entries: CopyScores, token: Int[Tensor, "N"], temperatures: Float[Tensor, "G"]
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N G"]]:
    """``_masses`` of the few entries with a token, and how far the largest of their scores is below 0."""
    row, column = entries.holding(token).visible.nonzero(as_tuple=True)
    scores = entries.scores[row, column]
    largest = scores.new_full((len(token),), -torch.inf).scatter_reduce(0, row, scores, "amax")
    relative = (scores - largest[row])[:, None] / temperatures.to(scores)
    sums = scores.new_zeros(len(token), len(temperatures)).index_add_(0, row, relative.exp())
    return -largest, sums.masked_fill(sums == 0, 1.0).log()


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def best_weight(alone: Float[np.ndarray, "N"], copied: Float[np.ndarray, "N"]) -> float:
    """The weight that makes ``sum log((1 - w) exp(alone) + w exp(copied))`` largest.

    The log-probability of each token is ``alone`` without stored tokens, and ``copied`` under the stored tokens only.
    The sum is concave in the weight, so its maximum is where the slope is zero, or at an end of [0, 1].

    >>> round(best_weight(np.log([0.1, 0.4]), np.log([0.3, 1e-300])), 3)
    0.25
    """
    from scipy.optimize import brentq

    possible = (alone > -np.inf) | (copied > -np.inf)
    # a ratio above exp(600) no longer changes the weight
    excess = np.expm1(np.minimum(copied[possible] - alone[possible], 600.0))

    def slope(weight: float) -> float:
        return float((excess / (1 + weight * excess)).sum())

    most = 1 - 1e-12
    if not len(excess) or slope(0.0) <= 0:
        return 0.0
    return 1.0 if slope(most) >= 0 else float(brentq(slope, 0.0, most, xtol=1e-10))
