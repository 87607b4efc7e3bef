"""Factorized: first a class, then a token of that class."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.token_classes import TokenClasses
from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.chunked.inplace import softmax_at_
from nextword.functional.chunked.recompute import concatenate_chunks
from nextword.functional.chunked.weight_gradient import SinglePass
from nextword.functional.inverse_sampling import drawn_at
from nextword.functional.logspace import at_least_float32


class Factorized(NextToken):
    """``P(w) = P(class of w) * softmax over the tokens of that class`` (F2-Softmax, eq. 2).

    Asked for one token a position (training is), it scores the tokens of that token's class and no others: positions
    are grouped by class, so that every class is one product with the states that need it.

    Args:
        vocabulary: Turns states into a score for every token; only differences within a class matter.
        states: Input of the vocabulary at each position.
        class_scores: Unnormalised scores of the C classes.
        classes: Which tokens each class holds.
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

    def map(self, change: Callable[[Tensor], Tensor]) -> Factorized:
        """With ``change`` made to the states and the scores of the classes."""
        of_rows = change(self.states), change(self.class_scores)
        changed = Factorized(self.vocabulary.map(change), *of_rows, self.classes)
        changed._computed = None if self._computed is None else change(self._computed)
        return changed

    def computed(self) -> Factorized:
        """With the log-probabilities of all tokens."""
        changed = copy(self)
        changed._computed = self._log_probs()
        return changed

    def shared(self) -> list[Tensor]:
        """The output embedding."""
        return list(self.vocabulary.shared())

    def log_class_probs(self) -> Float[Tensor, "N C"]:
        """Log-probability of every class (p1 in the paper)."""
        return at_least_float32(self.class_scores).log_softmax(-1)

    def over_prior(self, log_mass: Float[Tensor, "N C"]) -> Factorized:
        """With ``log_mass`` added to the scores of the classes."""
        return Factorized(self.vocabulary, self.states, at_least_float32(self.class_scores) + log_mass, self.classes)

    def log_softmax_class_mass(self) -> Float[Tensor, "N C"]:
        """Log of the probability that each class would have under one softmax over all tokens."""
        chunks = self._chunks()
        mass = concatenate_chunks(lambda rows: self.map(lambda tensor: tensor[rows])._class_mass(), chunks)
        return mass.log_softmax(-1)

    def _class_mass(self) -> Float[Tensor, "N C"]:
        """Up to a constant of each row: relative to its peak, sums of large scores keep their digits."""
        scores = self._dense()
        scores = scores - scores.detach().amax(-1, keepdim=True)
        return torch.stack([of_class.logsumexp(-1) for of_class in self._split(scores)], -1)

    def _dense(self) -> Float[Tensor, "N V"]:
        return self.columns.whole(at_least_float32(self.vocabulary(self.states)))

    def _split(self, scores: Float[Tensor, "N V"]) -> tuple[Float[Tensor, "N _"], ...]:
        """The scores of each class."""
        return torch.split(scores[:, self.classes.order], list(self.classes.sizes), dim=-1)

    def within(self, chosen: Int[Tensor, "N"]) -> Float[Tensor, "N V"]:
        """Log-probability of every token, given the class at each position; ``-inf`` outside it (eq. 7).

        Args:
            chosen: A class for each position.
        """
        if torch.compiler.is_compiling():  # a graph cannot let shapes depend on the classes
            outside = self.classes.token_class != chosen[:, None]
            return self._dense().masked_fill(outside, -torch.inf).log_softmax(-1)
        within = at_least_float32(self.states.new_empty(0)).new_full((len(self), self.vocab_size), -torch.inf)
        for rows, members, scores in self._by_class(chosen):
            within[rows[:, None], members] = self.columns.of_group(members).whole(scores).log_softmax(-1)
        return within

    def token_within(self, chosen: Int[Tensor, "N"], uniform: Float[Tensor, "N"] | None = None) -> Int[Tensor, "N"]:
        """A token of the class at each position: what ``within`` would give, without the (N, V) tensor.

        Args:
            chosen: A class for each position.
            uniform: A number in [0, 1) for each position that draws the token; None: the most probable one.
        """
        ids = torch.empty_like(chosen)
        for rows, members, scores in self._by_class(chosen):
            tokens, order = members.sort()
            ordered = self.columns.of_group(members).whole(scores)[:, order].log_softmax(-1)
            ids[rows] = tokens[ordered.argmax(-1) if uniform is None else drawn_at(ordered, uniform[rows])]
        return ids

    def share_scored(self, ids: Int[Tensor, "N K"]) -> float:
        """One token a position needs the scores of its class only."""
        if not self._is_grouped(ids) or not len(ids):
            return super().share_scored(ids)
        sizes = torch.tensor(self.classes.sizes, device=ids.device)
        return float(sizes[self.classes.token_class[ids[:, 0]]].double().mean()) / self.vocab_size

    def _is_grouped(self, ids: Tensor) -> bool:
        return ids.shape[1] == 1 and self._computed is None and not torch.compiler.is_compiling()

    def _by_class(
        self, chosen: Int[Tensor, "N"], single_pass: SinglePass | None = None
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For every chosen class: its positions, its tokens, and the scores of these at those, in columns held here."""
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=self.classes.count).tolist()
        groups = [
            (rows, members)
            for rows, members in zip(torch.split(order, counts), self.classes.members, strict=True)
            if len(rows)
        ]
        positions, members = [rows for rows, _ in groups], [ids for _, ids in groups]
        states = [self.states[rows] for rows in positions]
        scores = self.vocabulary.scores_of_groups(states, members, positions, single_pass)
        return [(rows, ids, at_least_float32(of_class)) for (rows, ids), of_class in zip(groups, scores, strict=True)]

    def _log_probs(self) -> Float[Tensor, "N V"]:
        if self._computed is not None:
            return self._computed.clone()
        # within each class first, as in training: less a normaliser as large as themselves, scores would lose digits
        by_class = zip(
            self._split(self._dense()),
            torch.split(self.log_class_probs(), 1, -1),
            strict=True,
        )
        log_probs = torch.cat([scores.log_softmax(-1) + of_class for scores, of_class in by_class], -1)
        return log_probs[:, self.classes.column]

    def _log_prob(self, ids: Int[Tensor, "N K"], single_pass: SinglePass | None = None) -> Float[Tensor, "N K"]:
        if self._computed is not None:
            return self._computed.gather(1, ids)
        if not self._is_grouped(ids):
            return self._log_probs().gather(1, ids)
        tokens = ids[:, 0]
        chosen = self.classes.token_class[tokens]
        of_class = self.log_class_probs().gather(1, chosen[:, None])
        groups = self._by_class(chosen, single_pass)
        if not groups:
            return of_class
        place, inside = self.classes.place[tokens], []
        for rows, members, scores in groups:
            own = self.columns.of_group(members)
            at_ids, total, _ = softmax_at_(scores, place[rows, None], single_pass, own)
            inside.append(at_ids - total[:, None])
        rows = torch.cat([rows for rows, _, _ in groups])
        return of_class.index_add(0, rows, torch.cat(inside).to(of_class.dtype))

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        log_prob, classes = self._log_prob(ids), self.classes.token_class[ids]
        return {f"class {c + 1}": log_prob.masked_fill(classes != c, -torch.inf) for c in range(self.classes.count)}
