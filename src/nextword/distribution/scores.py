"""SoftmaxDistribution: one softmax over the scores of all V tokens, a few of which may be changed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution.next_token import NextToken
from nextword.distribution.score_edits import EditedTokens, LogitEdit
from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.copy_scores import CopyScores, Stored, TextRead, in_store
from nextword.functional.inplace import concatenate_chunks, log_softmax_, softmax_at_
from nextword.functional.probability import at_least_float32, log_add_exp, shift_rows_
from nextword.functional.weight_gradient import FusedBackward


class SoftmaxDistribution(NextToken):
    """Softmax over the scores of all V tokens (dense scores), some changed by ``edits``, and over stored tokens.

    With ``z = vocabulary(states)`` after the edits, and stored entries j with the token ``w_j`` and the log-mass
    ``s_j``::

        P(w) = (exp z_w + sum_{j: w_j = w} exp s_j) / (sum_v exp z_v + sum_j exp s_j)

    Edits are applied before the normaliser is summed, because subtracting old exponentials from the sum would lose
    digits.

    Args:
        vocabulary: Computes dense scores from states, chunk by chunk.
        states: Input of the output layer at each position.
        nonlinearity: Function applied to the dense scores first (sigsoftmax); None: none.
        edits: Changes of single scores, applied in order.
        stored: Mapping from names such as ``cache`` to stored entries, which are normalised together with the scores.
        name: Name under which ``sources`` reports the share of the scores ``z``.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        states: Float[Tensor, "N D"],
        *,
        nonlinearity: Callable[[Tensor], Tensor] | None = None,
        edits: Sequence[LogitEdit] = (),
        stored: Mapping[str, Stored] | None = None,
        name: str = "softmax",
    ) -> None:
        self.vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.columns = vocabulary.columns
        self.states = states
        self.device = states.device
        self.nonlinearity = nonlinearity
        self.edits = tuple(edits)
        self.stored = dict(stored or {})
        self.name = name
        self._product: Tensor | None = None

    def __len__(self) -> int:
        return len(self.states)

    def map(self, change: Callable[[Tensor], Tensor]) -> SoftmaxDistribution:
        return SoftmaxDistribution(
            self.vocabulary.map(change),
            change(self.states),
            nonlinearity=self.nonlinearity,
            edits=[edit.map(change) for edit in self.edits],
            stored={name: entries.map(change) for name, entries in self.stored.items()},
            name=self.name,
        )

    def _scores_bytes(self) -> int:
        return super()._scores_bytes() + 4 * sum(stored.visible.shape[1] for stored in self.stored.values())

    def shared(self) -> list[Tensor]:
        return [*self.vocabulary.shared(), *(tensor for stored in self.stored.values() for tensor in stored.shared())]

    def dense(self, fused_backward: FusedBackward | None = None) -> Float[Tensor, "N V"]:
        """Unnormalised scores after the edits, without the stored entries."""
        return self._whole(fused_backward)[0]

    def with_product(self, product: Float[Tensor, "N V"]) -> SoftmaxDistribution:
        """The same distribution with ``product`` as ``vocabulary(states)``; the first use overwrites ``product``."""
        changed = copy(self)
        changed._product = product
        return changed

    def beside(self, stored: Mapping[str, Stored]) -> SoftmaxDistribution:
        """The same distribution with the further entries ``stored``, all normalised together."""
        changed = copy(self)
        changed.stored = self.stored | dict(stored)
        return changed

    def _whole(self, fused_backward: FusedBackward | None = None) -> tuple[Float[Tensor, "N V"], list[EditedTokens]]:
        scores, touched = self._edited(fused_backward)
        return self.columns.whole(scores), touched

    def _edited(self, fused_backward: FusedBackward | None = None) -> tuple[Float[Tensor, "N _"], list[EditedTokens]]:
        """Scores after the edits, in this process's columns, and the tokens that each edit changed."""
        # the result overwrites the product, so the next call computes a new product
        product, self._product = self._product, None
        scores = at_least_float32(self.vocabulary(self.states, fused_backward) if product is None else product)
        del product
        if self.nonlinearity is not None:
            scores = self.nonlinearity(scores)
        touched: list[EditedTokens] = []
        for edit in self.edits:
            scores, latest = edit.apply_(scores, self.vocabulary, fused_backward)
            touched += latest
        return scores, touched

    def _entries(self) -> dict[str, CopyScores]:
        return {name: stored.scored() for name, stored in self.stored.items()}

    def _normalised_(self, scores: Float[Tensor, "N V"]) -> tuple[Float[Tensor, "N V"], dict[str, CopyScores]]:
        """Log-probabilities of dense scores and entries together. Destroys ``scores``."""
        dense_peak, stored = scores.amax(-1), self._entries()
        log_probs = log_softmax_(scores)
        if not stored:
            return log_probs, {}
        peak = _common_peak(dense_peak.detach(), stored)
        stored = {name: entries.lowered(peak) for name, entries in stored.items()}
        # the largest log-probability is that of the peak, so it has the normaliser of the dense scores
        total = of_dense = (dense_peak - peak) - log_probs.amax(-1)
        for entries in stored.values():
            total = torch.logaddexp(total, entries.log_mass().to(total.dtype))
        lowered = {name: entries.lowered(total.to(entries.scores.dtype)) for name, entries in stored.items()}
        return shift_rows_(log_probs, of_dense - total), lowered

    def _log_probs(self) -> Float[Tensor, "N V"]:
        return _added_(*self._normalised_(self.dense()))

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        at_ids, total, _ = self._at(ids, fused_backward)
        return at_ids - total[:, None]

    def _at(
        self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log of the mass of tokens and of the normaliser, both minus the row's largest score, and that score."""
        at_ids, total, dense_peak = softmax_at_(self._edited(fused_backward)[0], ids, fused_backward, self.columns)
        stored = self._entries()
        peak = _common_peak(dense_peak, stored)
        total, at_ids = total + (dense_peak - peak), at_ids + (dense_peak - peak)[:, None]
        for entries in stored.values():
            lowered = entries.lowered(peak)
            total = torch.logaddexp(total, lowered.log_mass().to(total.dtype))
            at_ids = log_add_exp(at_ids, lowered.log_mass_of(ids, self.vocab_size).to(at_ids.dtype))
        return at_ids, total, peak

    def log_prob_and_normaliser(self, ids: Int[Tensor, "N K"]) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N"]]:
        """``log_prob(ids)`` and the log of the normaliser; from both, the effect of further entries can be computed."""
        self._expect_rows(ids)

        def both(rows: slice) -> Tensor:
            at_ids, total, peak = self.map(lambda of_rows: of_rows[rows])._at(ids[rows])
            return torch.cat([at_ids - total[:, None], (total + peak)[:, None]], 1)

        answers = concatenate_chunks(both, self._chunks())
        return answers[:, :-1], answers[:, -1]

    def relative(self) -> ComputedScores:
        """Like ``computed``, but the scores and the log-masses of stored entries are not normalised."""
        return ComputedScores(*self._whole(), self._entries(), self.name)

    def computed(self) -> ComputedScores:
        scores, touched = self._whole()
        log_probs, stored = self._normalised_(scores)
        return ComputedScores(log_probs, touched, stored, self.name)

    def positions_in(self) -> dict[str, TextRead]:
        edited = {name: text for edit in self.edits for name, text in edit.positions_in().items()}
        return edited | {name: stored.text for name, stored in self.stored.items()}

    def stands_in_store(self) -> dict[str, Tensor]:
        return in_store(self.stored)

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        return self.computed()._log_sources(ids)

    def _log_positions(self) -> dict[str, Tensor]:
        return self.computed()._log_positions() if self.stored else {}

    def _log_token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        return self.computed()._log_token_positions(ids) if self.positions_in() else {}


def _common_peak(peak: Float[Tensor, "N"], stored: Mapping[str, CopyScores]) -> Float[Tensor, "N"]:
    # relative to the largest score, the normaliser is a small number; a difference of two large numbers loses digits
    for entries in stored.values():
        peak = torch.maximum(peak, entries.peak().to(peak.dtype))
    return peak


def _added_(log_probs: Float[Tensor, "N V"], stored: Mapping[str, CopyScores]) -> Float[Tensor, "N V"]:
    for entries in stored.values():
        log_probs = entries.add_to_(log_probs)
    return log_probs


def in_one_product(parts: Sequence[NextToken], fused_backward: FusedBackward | None = None) -> list[NextToken]:
    """The distributions ``parts``, after the products of all softmaxes with one vocabulary were computed together.

    The first method call that needs a product uses it up. Later calls compute the product again.
    """
    softmaxes = [part for part in parts if isinstance(part, SoftmaxDistribution)]
    together = [part for part in softmaxes if part.vocabulary is softmaxes[0].vocabulary]
    if len(together) < 2:
        return list(parts)
    products = iter(together[0].vocabulary.each([part.states for part in together], fused_backward))
    return [part.with_product(next(products)) if part in together else part for part in parts]


# -- ComputedScores: the scores of one softmax, with the information from which ``sources`` and positions are computed.


class ComputedScores(NextToken):
    """A ``SoftmaxDistribution`` with its (N, V) scores computed.

    The scores are log-probabilities, possibly shifted by one constant per row.

    Args:
        dense: Scores of the vocabulary after the edits.
        touched: Tokens that edits changed, latest change last.
        stored: Mapping from name to stored entries, whose log-masses have the same shift as ``dense``.
        name: Name under which ``sources`` reports the share of the tokens that no edit changed.
    """

    def __init__(
        self, dense: Float[Tensor, "N V"], touched: Sequence[EditedTokens], stored: Mapping[str, CopyScores], name: str
    ) -> None:
        self.dense = dense
        self.vocab_size = dense.shape[1]
        self.device = dense.device
        self.touched = tuple(touched)
        self.stored = dict(stored)
        self.name = name

    def __len__(self) -> int:
        return len(self.dense)

    def map(self, change: Callable[[Tensor], Tensor]) -> ComputedScores:
        return ComputedScores(
            change(self.dense),
            [touched.map(change) for touched in self.touched],
            {name: entries.map(change) for name, entries in self.stored.items()},
            self.name,
        )

    def shared(self) -> list[Tensor]:
        return []

    def positions_in(self) -> dict[str, TextRead]:
        edited = {touched.source: touched.positions.text for touched in self.touched if touched.positions is not None}
        return edited | {name: entries.text for name, entries in self.stored.items()}

    def stands_in_store(self) -> dict[str, Tensor]:
        return in_store(self.stored)

    def _log_probs(self) -> Float[Tensor, "N V"]:
        return _added_(self.dense.clone(), self.stored)

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        log_prob = self.dense.gather(1, ids)
        for entries in self.stored.values():
            log_prob = log_add_exp(log_prob, entries.log_mass_of(ids, self.vocab_size).to(log_prob.dtype))
        return log_prob

    def _by_edit(self, ids: Int[Tensor, "N K"]) -> Iterator[tuple[EditedTokens, Tensor]]:
        """Each edit, latest first, with the log-probabilities of those tokens ``ids`` whose final score it set."""
        dense, untaken = self.dense.gather(1, ids), torch.ones_like(ids, dtype=torch.bool)
        for touched in reversed(self.touched):  # the latest change of a token is the one that stands
            changed = touched.holds(ids, self.vocab_size) & untaken
            untaken = untaken & ~changed
            yield touched, dense.masked_fill(~changed, -torch.inf)
        yield EditedTokens(self.name, ids, untaken), dense.masked_fill(~untaken, -torch.inf)

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        shares: dict[str, Tensor] = {}
        for touched, share in reversed(list(self._by_edit(ids))):
            add_share(shares, touched.source, share)
        for name, entries in self.stored.items():
            shares[name] = entries.log_mass_of(ids, self.vocab_size).to(self.dense.dtype)
        return shares

    def _log_positions(self) -> dict[str, Tensor]:
        return {name: entries.by_position() for name, entries in self.stored.items()}

    def _log_token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        positions: dict[str, Tensor] = {}
        for touched, share in self._by_edit(ids[:, None]):
            if touched.positions is not None:
                add_share(positions, touched.source, touched.positions.dividing(share, ids))
        return positions | {name: entries.holding(ids).by_position() for name, entries in self.stored.items()}


def add_share(shares: dict[str, Tensor], name: str, share: Tensor) -> None:
    """Adds ``share`` to the share of the component ``name`` in ``shares``; all are logarithms."""
    shares[name] = log_add_exp(shares[name], share) if name in shares else share


# -- KnownScores: a softmax over scores that were computed elsewhere, such as the logits of a forward pass.

_BLOCK_BYTES = {"cpu": 2**22}
"""Bytes of scores normalised at once, by device; on a CPU they fit into its cache."""
_BLOCK_BYTES_ELSEWHERE = 2**26


class KnownScores(NextToken):
    """``P = softmax(scores[row])`` at each of N positions; ``scores`` may be log-probabilities.

    Scores are read some rows at a time and never copied as a whole.

    Args:
        scores: Scores of M positions; not modified.
        row: Index of the row in ``scores`` for each of the N positions.
    """

    def __init__(self, scores: Float[Tensor, "M V"], row: Int[Tensor, "N"]) -> None:
        self.scores = scores
        self.row = row
        self.vocab_size = scores.shape[1]
        self.device = scores.device

    def __len__(self) -> int:
        return len(self.row)

    def map(self, change: Callable[[Tensor], Tensor]) -> KnownScores:
        return KnownScores(self.scores, change(self.row))

    def shared(self) -> list[Tensor]:
        return [self.scores]

    def _blocks(self) -> Iterator[tuple[slice, Float[Tensor, "_R V"]]]:
        block_bytes = _BLOCK_BYTES.get(self.device.type, _BLOCK_BYTES_ELSEWHERE)
        size = max(1, block_bytes // (4 * max(1, self.vocab_size)))
        for start in range(0, max(1, len(self)), size):
            rows = slice(start, start + size)
            yield rows, log_softmax_(at_least_float32(self.scores[self.row[rows]]))

    def _log_probs(self) -> Float[Tensor, "N V"]:
        return torch.cat([log_probs for _, log_probs in self._blocks()])

    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        return torch.cat([log_probs.gather(1, ids[rows]) for rows, log_probs in self._blocks()])

    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        return {"scores": self._log_prob(ids)}
