"""FactorizedDistribution: a class is predicted first, then a token of that class."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.inplace import concatenate_chunks, softmax_at_
from nextword.functional.probability import at_least_float32, drawn_at, truncated
from nextword.functional.weight_gradient import FusedBackward


class FactorizedDistribution(NextToken):
    """``P(w) = P(class of w) * softmax over the tokens of that class`` (F2-Softmax, eq. 2).

    For one given token per position, as in training, only the tokens of the given token's class are scored. Positions
    are grouped by this class; each group takes one matrix product.

    Args:
        vocabulary: Computes a score for every token from states; only differences within a class matter.
        states: Input of the output layer at each position.
        class_scores: Unnormalised scores of the C classes.
        classes: The tokens of each class.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        states: Float[Tensor, "N D"],
        class_scores: Float[Tensor, "N C"],
        classes: TokenClasses,
    ) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.columns = vocabulary.columns
        self.states = states
        self.device = states.device
        self.class_scores = class_scores
        self.classes = classes
        self._computed: Tensor | None = None

    def __len__(self) -> int:
        return len(self.states)

    def map(self, change: Callable[[Tensor], Tensor]) -> FactorizedDistribution:
        of_rows = change(self.states), change(self.class_scores)
        changed = FactorizedDistribution(self.vocabulary.map(change), *of_rows, self.classes)
        changed._computed = None if self._computed is None else change(self._computed)
        return changed

    def computed(self) -> FactorizedDistribution:
        changed = copy(self)
        changed._computed = self._log_probs()
        return changed

    def shared(self) -> list[Tensor]:
        return list(self.vocabulary.shared())

    def log_class_probs(self) -> Float[Tensor, "N C"]:
        """Log-probability of every class at each position (p1 in the paper)."""
        return at_least_float32(self.class_scores).log_softmax(-1)

    def over_prior(self, log_mass: Float[Tensor, "N C"]) -> FactorizedDistribution:
        """The same distribution with ``log_mass`` added to the class scores."""
        return FactorizedDistribution(
            self.vocabulary, self.states, at_least_float32(self.class_scores) + log_mass, self.classes
        )

    def log_softmax_class_mass(self) -> Float[Tensor, "N C"]:
        """Log-probability of each class under one softmax over all tokens."""
        chunks = self._chunks()
        mass = concatenate_chunks(lambda rows: self.map(lambda tensor: tensor[rows])._class_mass(), chunks)
        return mass.log_softmax(-1)

    def _class_mass(self) -> Float[Tensor, "N C"]:
        """Log of each class's mass, relative to the row's largest score, so that large scores lose no digits."""
        scores = self._dense()
        scores = scores - scores.detach().amax(-1, keepdim=True)
        return torch.stack([of_class.logsumexp(-1) for of_class in self._split(scores)], -1)

    def _dense(self) -> Float[Tensor, "N V"]:
        return self.columns.whole(at_least_float32(self.vocabulary(self.states)))

    def _split(self, scores: Float[Tensor, "N V"]) -> tuple[Float[Tensor, "N _"], ...]:
        return torch.split(scores[:, self.classes.order], list(self.classes.sizes), dim=-1)

    def within(self, chosen: Int[Tensor, "N"]) -> Float[Tensor, "N V"]:
        """Log-probability of every token, given the class ``chosen`` at each position.

        ``-inf`` for tokens of other classes (eq. 7).
        """
        if torch.compiler.is_compiling():  # a graph cannot let shapes depend on the classes
            outside = self.classes.token_class != chosen[:, None]
            return self._dense().masked_fill(outside, -torch.inf).log_softmax(-1)
        within = at_least_float32(self.states.new_empty(0)).new_full((len(self), self.vocab_size), -torch.inf)
        for rows, members, scores in self._by_class(chosen):
            within[rows[:, None], members] = self.columns.of_group(members).whole(scores).log_softmax(-1)
        return within

    def token_within(self, chosen: Int[Tensor, "N"], uniform: Float[Tensor, "N"] | None = None) -> Int[Tensor, "N"]:
        """A token of the chosen class at each position, without an (N, V) tensor.

        ``uniform``: numbers in [0, 1) that select a sampled token; None: the most probable token.
        """
        ids = torch.empty_like(chosen)
        for rows, members, scores in self._by_class(chosen):
            tokens, order = members.sort()
            ordered = self.columns.of_group(members).whole(scores)[:, order].log_softmax(-1)
            ids[rows] = tokens[ordered.argmax(-1) if uniform is None else drawn_at(ordered, uniform[rows])]
        return ids

    def share_scored(self, ids: Int[Tensor, "N K"]) -> float:
        """Average share of a row's V scores that ``ids`` need. With one id per position, only its class is scored."""
        if not self._is_grouped(ids) or not len(ids):
            return super().share_scored(ids)
        counts = self.classes.counted(self.classes.token_class[ids[:, 0]])
        scored: int = sum(map(operator.mul, counts, self.classes.sizes))
        return scored / len(ids) / self.vocab_size

    def _is_grouped(self, ids: Tensor) -> bool:
        return ids.shape[1] == 1 and self._computed is None and not torch.compiler.is_compiling()

    def _by_class(
        self, chosen: Int[Tensor, "N"], fused_backward: FusedBackward | None = None
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For every chosen class: its positions, its tokens, and their scores in this process's columns."""
        order = chosen.argsort(stable=True)
        counts = self.classes.counted(chosen)
        by_class = zip(torch.split(order, counts), self.classes.members, strict=True)
        groups = [(rows, ids) for rows, ids in by_class if len(rows)]
        positions, members = [rows for rows, _ in groups], [ids for _, ids in groups]
        states = [self.states[rows] for rows in positions]
        scores = self.vocabulary.scores_of_groups(states, members, positions, fused_backward)
        return list(zip(positions, members, map(at_least_float32, scores), strict=True))

    def _log_probs(self) -> Float[Tensor, "N V"]:
        if self._computed is not None:
            return self._computed.clone()
        # normalised within each class first, as in training, because subtracting one large normaliser would lose digits
        by_class = zip(self._split(self._dense()), torch.split(self.log_class_probs(), 1, -1), strict=True)
        log_probs = torch.cat([scores.log_softmax(-1) + of_class for scores, of_class in by_class], -1)
        return log_probs[:, self.classes.column]

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        if self._computed is not None:
            return self._computed.gather(1, ids)
        if not self._is_grouped(ids):
            return self._log_probs().gather(1, ids)
        tokens = ids[:, 0]
        chosen = self.classes.token_class[tokens]
        of_class = self.log_class_probs().gather(1, chosen[:, None])
        groups = self._by_class(chosen, fused_backward)
        if not groups:
            return of_class
        place, inside = self.classes.place[tokens], []
        for rows, members, scores in groups:
            own = self.columns.of_group(members)
            at_ids, total, _ = softmax_at_(scores, place[rows, None], fused_backward, own)
            inside.append(at_ids - total[:, None])
        rows = torch.cat([rows for rows, _, _ in groups])
        return of_class.index_add(0, rows, torch.cat(inside).to(of_class.dtype))

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        log_prob, classes = self._log_prob(ids), self.classes.token_class[ids]
        return {f"class {c + 1}": log_prob.masked_fill(classes != c, -torch.inf) for c in range(self.classes.count)}


# -- Decoupled decoding: chooses a class first, then a token of this class.


class ClassDraw:
    """Chooses a class at each position and returns the distribution within the class (F2-Softmax, eq. 7).

    The class is the most probable one or, if ``sample`` is True, sampled by the class probabilities, which ``top_k``
    and ``top_p`` truncate. The argmax, top-k, top-p and temperature of ``generate`` then act within the class.
    """

    def __init__(self, sample: bool, top_k: int | None = None, top_p: float | None = None) -> None:
        self.sample = sample
        self.top_k, self.top_p = top_k, top_p
        self._distribution: FactorizedDistribution | None = None
        self._chosen: Tensor | None = None
        self._tried: Tensor | None = None

    def __call__(self, distribution: FactorizedDistribution) -> Float[Tensor, "N V"]:
        chosen = self._class(distribution)
        self._distribution, self._chosen, self._tried = distribution, chosen, None
        return distribution.within(chosen)

    def token(self, distribution: FactorizedDistribution, uniform: Float[Tensor, "N"] | None) -> Int[Tensor, "N"]:
        """Chooses a class at each position, and a token of this class with ``FactorizedDistribution.token_within``.

        Only tokens of the chosen class are scored, so logits processors cannot be applied.
        """
        return distribution.token_within(self._class(distribution), uniform)

    def redraw(self, rows: Bool[Tensor, "N"]) -> Float[Tensor, "N V"] | None:
        """Chooses another class where ``rows`` is True, because no token of the first class was allowed there.

        Every class is tried at most once; classes that ``top_k`` or ``top_p`` removed are tried last. Returns the
        distribution within the new classes, ``-inf`` at other positions; None if all classes were tried at a position.
        """
        assert self._distribution is not None
        assert self._chosen is not None
        log_class = self._distribution.log_class_probs()
        if self._tried is None:  # rarely needed, so not made in every step
            self._tried = torch.zeros_like(log_class, dtype=torch.bool).scatter_(1, self._chosen[:, None], True)
        if bool(self._tried[rows].all(-1).any()):
            return None
        kept = truncated(log_class, self.top_k, self.top_p).masked_fill(self._tried, -torch.inf)[rows]
        others = log_class.masked_fill(self._tried, -torch.inf)[rows]
        left = torch.where((kept > -torch.inf).any(-1, keepdim=True), kept, others)
        chosen = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        chosen[rows] = self._drawn(left)
        self._tried[rows] = self._tried[rows].scatter(1, chosen[rows][:, None], True)
        within = self._distribution.map(lambda tensor: tensor[rows.nonzero()[:, 0]]).within(chosen[rows])
        return within.new_full((len(rows), within.shape[-1]), -torch.inf).index_put((rows,), within)

    def _class(self, distribution: FactorizedDistribution) -> Int[Tensor, "N"]:
        return self._drawn(truncated(distribution.log_class_probs(), self.top_k, self.top_p))

    def _drawn(self, log_class: Float[Tensor, "M C"]) -> Int[Tensor, "M"]:
        if not self.sample:
            return log_class.argmax(-1)
        return torch.multinomial(log_class.softmax(-1), 1)[:, 0]


# -- Tokens divided into classes, each token in one.


@dataclass(frozen=True)
class TokenClasses:
    """C classes of tokens; no class is empty.

    Args:
        order: All token ids, class after class.
        sizes: Number of tokens in each class.
        token_class: Class of each token, 0 to C - 1.
        place: Index of each token within its class.
    """

    order: Int[Tensor, "V"]
    sizes: tuple[int, ...]
    token_class: Int[Tensor, "V"]
    place: Int[Tensor, "V"]

    @classmethod
    def of(cls, token_class: Int[Tensor, "V"]) -> TokenClasses:
        """Builds classes from the class of each token; within a class tokens are ordered by id.

        >>> import torch
        >>> TokenClasses.of(torch.tensor([1, 0, 1])).members
        (tensor([1]), tensor([0, 2]))
        """
        return cls.ordered(token_class.argsort(stable=True), torch.bincount(token_class).tolist())

    @classmethod
    def ordered(cls, order: Int[Tensor, "V"], sizes: Sequence[int]) -> TokenClasses:
        """Builds classes from ``order`` (all token ids, class after class) and ``sizes`` (number of tokens in each)."""
        device = order.device
        classes = torch.arange(len(sizes), device=device).repeat_interleave(torch.tensor(sizes, device=device))
        positions = torch.cat([torch.arange(size, device=device) for size in sizes])
        token_class = torch.empty_like(order).scatter_(0, order, classes)
        return cls(order, tuple(sizes), token_class, torch.empty_like(order).scatter_(0, order, positions))

    @property
    def count(self) -> int:
        """The number of classes C."""
        return len(self.sizes)

    def counted(self, chosen: Int[Tensor, "N"]) -> list[int]:
        """How often each class occurs in ``chosen``, with one GPU synchronisation; ``bincount`` would need three."""
        counts = chosen.new_zeros(self.count).scatter_add_(0, chosen, torch.ones_like(chosen))
        return counts.tolist()

    @cached_property
    def members(self) -> tuple[Tensor, ...]:
        """Token ids of each class."""
        return torch.split(self.order, list(self.sizes))

    @cached_property
    def column(self) -> Int[Tensor, "V"]:
        """Index of each token in ``order``."""
        begins = self.order.new_tensor([0, *accumulate(self.sizes)])
        return begins[self.token_class] + self.place
