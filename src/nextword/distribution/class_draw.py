"""Decoupled drawing: a class first, then only that class is asked for the token."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution.factorized import Factorized
from nextword.functional.truncate import truncated


class ClassDraw:
    """Draws a class at each position and gives the distribution within it (F2-Softmax, eq. 7).

    Greedy decoding takes the most probable class, sampling draws one from p1. Whatever comes after (argmax, top-k,
    top-p, temperature) then acts within the class.

    Args:
        sample: Whether classes are drawn at random.
        top_k: Draw among the ``top_k`` most probable classes only.
        top_p: Draw among the fewest classes that together have at least this probability.
    """

    def __init__(self, sample: bool, top_k: int | None = None, top_p: float | None = None) -> None:
        self.sample = sample
        self.top_k, self.top_p = top_k, top_p
        self._distribution: Factorized | None = None
        self._chosen: Tensor | None = None
        self._tried: Tensor | None = None

    def __call__(self, distribution: Factorized) -> Float[Tensor, "N V"]:
        """Log-probability of every token within the class that was drawn; ``-inf`` outside it."""
        chosen = self._class(distribution)
        self._distribution, self._chosen, self._tried = distribution, chosen, None
        return distribution.within(chosen)

    def token(self, distribution: Factorized, uniform: Float[Tensor, "N"] | None) -> Int[Tensor, "N"]:
        """The token itself, where nothing acts within its class: only that class is scored.

        Args:
            distribution: Whose.
            uniform: A number in [0, 1) for each position that draws the token; None: the most probable one.
        """
        return distribution.token_within(self._class(distribution), uniform)

    def redraw(self, rows: Bool[Tensor, "N"]) -> Float[Tensor, "N V"] | None:
        """The same with another class at some positions, because nothing of the first was allowed there.

        Every class is tried at most once, those that were cut away last. None where a position has no class left.
        """
        assert self._distribution is not None
        assert self._chosen is not None
        log_class = self._distribution.log_class_probs()
        if self._tried is None:  # hardly ever asked for, so not made in every step
            self._tried = torch.zeros_like(log_class, dtype=torch.bool).scatter_(1, self._chosen[:, None], True)
        left = log_class.masked_fill(self._tried, -torch.inf)[rows]
        if bool(self._tried[rows].all(-1).any()):
            return None
        chosen = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        chosen[rows] = self._drawn(left)
        self._tried[rows] = self._tried[rows].scatter(1, chosen[rows][:, None], True)
        within = self._distribution.map(lambda tensor: tensor[rows.nonzero()[:, 0]]).within(chosen[rows])
        return within.new_full((len(rows), within.shape[-1]), -torch.inf).index_put((rows,), within)

    def _class(self, distribution: Factorized) -> Int[Tensor, "N"]:
        return self._drawn(truncated(distribution.log_class_probs(), self.top_k, self.top_p))

    def _drawn(self, log_class: Float[Tensor, "M C"]) -> Int[Tensor, "M"]:
        if not self.sample:
            return log_class.argmax(-1)
        return torch.multinomial(log_class.softmax(-1), 1)[:, 0]
