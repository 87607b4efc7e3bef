"""NextToken: the distribution that every head returns, and that objectives, decoding, metrics and checks use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.functional.chunked_loss import row_chunks, sum_chunks, sum_with_gradient
from nextword.functional.copy_scores import TextRead
from nextword.functional.inplace import concatenate_chunks
from nextword.functional.probability import expect_truncation, logsumexp_finite, top_k, truncated
from nextword.functional.vocab_shard import ALL_COLUMNS, VocabShard
from nextword.functional.weight_gradient import FusedBackward
from nextword.settings.old_modules import keep_old_methods

_OLD_METHODS = {
    "places": "positions",
    "token_places": "token_positions",
    "places_in": "positions_in",
    "_log_places": "_log_positions",
    "_log_token_places": "_log_token_positions",
}


class NextToken(ABC):
    """A distribution over the V tokens of a vocabulary at each of N positions, in nats.

    Methods that return values of few tokens per position never make an (N, V) tensor: rows (one per position) are
    computed in chunks that fit the memory budget (``nextword.score_memory``). With gradients, chunks are recomputed in
    the backward pass. Only ``log_likelihood``, which training calls, and ``log_prob_and_sum`` compute each chunk once.

    A subclass is final (its chunks are made by its own constructor). It implements ``_log_probs``, ``_log_prob``,
    ``_log_sources``, ``map`` and ``shared`` for all its rows at once; if it has stored tokens, also ``_log_positions``
    and ``_log_token_positions``. This base class splits rows into chunks.
    """

    vocab_size: int
    device: torch.device
    columns: VocabShard = ALL_COLUMNS
    """The columns of the (N, V) scores that this process computes; methods always return results for all V tokens."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_old_methods(cls, _OLD_METHODS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} positions, {self.vocab_size} tokens)"

    @abstractmethod
    def __len__(self) -> int:
        """The number of positions N."""

    @abstractmethod
    def map(self, change: Callable[[Tensor], Tensor]) -> NextToken:
        """The same kind of distribution, with ``change`` applied to every tensor that has one row per position.

        The tensors are passed in the same order every time.
        """

    @abstractmethod
    def shared(self) -> list[Tensor]:
        """Tensors shared by all positions that may need a gradient, such as the output embedding."""

    def __getitem__(self, rows: slice | Int[Tensor, "M"]) -> NextToken:
        """The distribution at the positions ``rows``."""
        return self.map(lambda tensor: tensor[rows])

    def computed(self) -> NextToken:
        """The same distribution with its (N, V) scores computed, so that later method calls do not compute them again.

        Use it without gradients, for as many rows as fit into memory. By default, the distribution itself is returned.
        """
        return self

    def relative(self) -> NextToken:
        """Like ``computed``, but each row of log-probabilities may be shifted by a constant if that is cheaper."""
        return self.computed()

    @abstractmethod
    def _log_probs(self) -> Float[Tensor, "N V"]:
        """Log-probabilities of all rows at once, in a new tensor that the caller may change if autograd is off."""

    @abstractmethod
    def _log_prob(self, ids: Int[Tensor, "N K"], fused_backward: FusedBackward | None = None) -> Float[Tensor, "N K"]:
        """Log-probabilities of all rows at once; ``fused_backward`` is passed to products and in-place functions."""

    @abstractmethod
    def _log_sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Tensor]:
        """By component, log of the part of each token's probability that the component contributes (N, K)."""

    def _log_positions(self) -> dict[str, Tensor]:
        """By component that points at positions, log of the probability from each position (N, S)."""
        return {}

    def _log_token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Tensor]:
        """By component that points at positions, log of each token's probability from each position (N, S)."""
        return {}

    def log_probs(self) -> Float[Tensor, "N V"]:
        """Log-probability of every token at every position; ``-inf`` exactly for tokens with probability zero."""
        return concatenate_chunks(lambda rows: self[rows]._log_probs(), self._chunks(), recompute=False)

    def log_prob(self, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Log-probability of K given tokens at every position, without an (N, V) tensor.

        Raises:
            ValueError: If ``ids`` is not of shape (N, K), or (checked on a CPU) has a token outside the vocabulary.
        """
        self._expect_rows(ids)
        chunks = self._chunks(int(self.row_bytes() * self.share_scored(ids)))
        return concatenate_chunks(lambda rows: self[rows]._log_prob(ids[rows]), chunks)

    def log_likelihood(self, ids: Tensor, weights: Tensor | None = None) -> Float[Tensor, ""]:
        """``sum_n weights_n log P(ids_n)``, the sum that training uses; its gradient is computed in the same pass.

        Args:
            ids: One token per position (N,).
            weights: Weight of each position (N,); None: 1. Weights get no gradient.

        Raises:
            ValueError: If ``ids`` or ``weights`` are not of shape (N,), or (checked on a CPU) a token is outside the
                vocabulary. For a position that should not count, give any token and the weight 0.
        """
        for name, vector in (("ids", ids), ("weights", weights)):
            shape = tuple(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
            if shape != (len(self),) and not (vector is None and name == "weights"):
                raise ValueError(f"{name}: must be ({len(self)},), one per position (shape {shape} given)")
        self._expect_rows(ids[:, None])

        def weighted(log_probs: Tensor, rows: slice) -> Tensor:
            of_ids = log_probs[:, 0]
            return of_ids if weights is None else of_ids * weights.detach()[rows].to(of_ids.dtype)

        return self._sum(ids[:, None], weighted)

    def log_prob_and_sum(
        self, ids: Int[Tensor, "N K"], term: Callable[[Tensor, slice], Tensor]
    ) -> tuple[Float[Tensor, "N K"], Float[Tensor, ""]]:
        """``log_prob(ids)`` without gradients, and the sum of ``term`` over all positions with gradients, in one pass.

        Use it for a loss that depends on few tokens per position. It costs as much as ``log_likelihood``.

        Args:
            ids: K tokens for each position.
            term: Function of two arguments: the log-probabilities (n, K) of some positions, and the slice of these
                positions. It returns a number for each of them, and must not read other tensors with gradients.

        Raises:
            ValueError: If ``ids`` is not of shape (N, K), or (checked on a CPU) has a token outside the vocabulary.
        """
        self._expect_rows(ids)
        found: dict[int, Tensor] = {}

        def kept(log_probs: Tensor, rows: slice) -> Tensor:
            found[rows.start] = log_probs.detach()
            return term(log_probs, rows)

        total = self._sum(ids, kept)
        return torch.cat([found[start] for start in sorted(found)]), total

    def _sum(self, ids: Int[Tensor, "N K"], term: Callable[[Tensor, slice], Tensor]) -> Float[Tensor, ""]:
        row_tensors: list[Tensor] = []
        self.map(lambda tensor: row_tensors.append(tensor) or tensor)  # type: ignore[func-returns-value]

        def of_chunk(rows: slice, leaves: list[Tensor], fused_backward: FusedBackward | None) -> Tensor:
            in_order = iter(leaves)
            chunk = self.map(lambda _: next(in_order))
            return term(chunk._log_prob(ids[rows], fused_backward), rows).sum()

        shared = self.shared()
        row_bytes = max(1, int(self._scores_bytes() * self.share_scored(ids)))
        weight_bytes = self.columns.processes * max((4 * tensor.numel() for tensor in shared), default=0)
        chunks = sum_chunks(len(self), row_bytes, weight_bytes, self.device, self.columns) or [slice(0, 0)]
        return sum_with_gradient(of_chunk, chunks, row_tensors, shared)

    def log_complement(self, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """``log(1 - P)`` of K given tokens at every position, without an (N, V) tensor; accurate for P near 0 or 1.

        If every other token has probability zero, the result is the log of the smallest positive number of the dtype
        (-87.3 in float32) instead of ``-inf``, without gradient.

        Raises:
            ValueError: If ``ids`` is not of shape (N, K), or (checked on a CPU) has a token outside the vocabulary.
        """
        self._expect_rows(ids)
        # the sum over the other tokens masks a copy of the dense row and takes its exponentials
        chunks = self._chunks(self.row_bytes() + 2 * self.vocab_size * 4)
        return concatenate_chunks(lambda rows: log_complement(self[rows]._log_probs(), ids[rows]), chunks)

    def probs(self) -> Float[Tensor, "N V"]:
        """Probability of every token at every position."""
        return self.log_probs().exp()

    def top_k(self, k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
        """Log-probabilities and ids of the ``k`` most probable tokens at each position, in decreasing order.

        Raises:
            ValueError: If ``k`` is below 1 or above the vocabulary size.
        """
        if not 1 <= k <= self.vocab_size:
            raise ValueError(f"top_k: k must be from 1 to the vocabulary's {self.vocab_size} tokens ({k} given)")
        chunks = [top_k(self[rows]._log_probs(), k) for rows in self._chunks()]
        return torch.cat([values for values, _ in chunks]), torch.cat([ids for _, ids in chunks])

    def entropy(self) -> Float[Tensor, "N"]:
        """Entropy at each position, in nats."""

        def entropy_of(rows: slice) -> Tensor:
            log_probs = self[rows]._log_probs()
            # 0 log 0 = 0: a zero in place of -inf keeps the product and its gradient finite
            return -(log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0.0)).sum(-1)

        return concatenate_chunks(entropy_of, self._chunks())

    @torch.no_grad()
    def sample(
        self,
        generator: torch.Generator | None = None,
        *,
        num_samples: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Int[Tensor, "N num_samples"]:
        """Tokens sampled independently (with replacement) at each position.

        Args:
            generator: Random generator; None: torch's global one.
            num_samples: Number of samples per position.
            temperature: Number that log-probabilities are divided by first; values below 1 sharpen the distribution.
            top_k: Number of most probable tokens to sample from; None: all.
            top_p: Sample from the fewest most probable tokens that together have at least this probability (nucleus),
                after ``temperature`` and ``top_k``; None: from all.

        Raises:
            ValueError: If ``temperature`` is not above 0, ``top_k`` is below 1, or ``top_p`` is outside (0, 1].
        """
        if not temperature > 0:
            raise ValueError(f"sample: temperature must be more than 0 ({temperature} given); use top_k(1) for greedy")
        expect_truncation("sample", top_k, top_p)

        def draw(rows: slice) -> Tensor:
            log_probs = truncated(self[rows]._log_probs() / temperature, top_k, top_p)
            return torch.multinomial(log_probs.softmax(-1), num_samples, replacement=True, generator=generator)

        return concatenate_chunks(draw, self._chunks())

    # -- The components and the positions of the text from which the probability of a token came. Components have names,
    # such as ``softmax`` and ``cache``.

    def sources(self, ids: Int[Tensor, "N K"]) -> dict[str, Float[Tensor, "N K"]]:
        """Mapping from the name of each component, such as ``cache``, to its part of the probability of every id.

        The parts (shares) of all components sum to the token's probability.
        """
        self._expect_rows(ids)
        return _joined([self[rows]._log_sources(ids[rows]) for rows in self._chunks()])

    def positions(self) -> dict[str, Float[Tensor, "N S"]]:
        """Mapping from the name of each component with stored tokens to the probability from each stored token.

        Such components are caches, pointers and retrieved tokens. The S columns are the positions (padding included) of
        the text that ``positions_in`` names. The sum over a token's positions is the token's share in ``sources``.
        """
        return _joined([self[rows]._log_positions() for rows in self._chunks()])

    def token_positions(self, ids: Int[Tensor, "N"]) -> dict[str, Float[Tensor, "N S"]]:
        """Mapping from the name of each component to the part of a token's probability from each of S text positions.

        Row n is about the token ``ids[n]``; text positions with another token contribute 0. The sum over text positions
        equals the token's share in ``sources``. ``positions_in`` names the text that the positions belong to.

        A cache or a pointer gives each position a probability. A partition (``+c``, ``+e``, ``+p``) gives a token one
        score for all its positions. The token's probability is divided among these positions: evenly, or with local
        embeddings (``p``) in proportion to ``exp`` of each position's score. Components without positions, such as
        the softmax, are missing.

        Raises:
            ValueError: If ``ids`` is not one token of the vocabulary per row.
        """
        self._expect_rows(ids[:, None])
        return _joined([self[rows]._log_token_positions(ids[rows]) for rows in self._chunks()])

    def positions_in(self) -> dict[str, TextRead]:
        """Mapping from the name of each component in ``token_positions`` to the text that its positions belong to.

        ``"text"``: the decoder's own sequence. ``"source"``: the source of an encoder-decoder model, or the auxiliary
        text in the decoder's tokens. ``"store"``: a datastore; the positions are indices of the retrieved tokens, and
        ``stands_in_store`` returns where these tokens are in the datastore.
        """
        return {}

    def stands_in_store(self) -> dict[str, Int[Tensor, "N K 2"]]:
        """Mapping from the name of each retrieving component to the document and position of each retrieved token.

        The K tokens retrieved from the datastore are in the same order as in ``positions`` and ``token_positions``.
        """
        return {}

    # names in earlier versions
    places, token_places, places_in = positions, token_positions, positions_in

    def row_bytes(self) -> int:
        """Bytes of memory needed to compute one row."""
        return self._scores_bytes() + 2 * self.vocab_size * 4  # normalised: a shifted copy and the exponentials

    def _scores_bytes(self) -> int:
        return self.softmaxes() * self.vocab_size * 4

    def softmaxes(self) -> int:
        """Number of sets of V scores that a row needs, such as K in a mixture of K softmaxes."""
        return 1

    def share_scored(self, ids: Int[Tensor, "N K"]) -> float:
        """Average share of a row's V scores that must be computed for the tokens ``ids``."""
        return 1.0

    def _chunks(self, row_bytes: int | None = None) -> list[slice]:
        row_bytes = self.row_bytes() if row_bytes is None else row_bytes
        return row_chunks(len(self), row_bytes, self.device, self.columns) or [slice(0, 0)]

    def _expect_rows(self, ids: Tensor) -> None:
        shape = tuple(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__
        if not isinstance(ids, Tensor) or ids.ndim != 2 or len(ids) != len(self):
            raise ValueError(f"ids: must be ({len(self)}, K), K tokens per position (shape {shape} given)")
        if ids.device.type == "cpu" and not torch.compiler.is_compiling() and ids.numel():
            low, high = ids.aminmax()
            if low < 0 or high >= self.vocab_size:
                wrong = int(low if low < 0 else high)
                raise ValueError(f"token id {wrong} is outside the vocabulary of {self.vocab_size} tokens")


def _joined(chunks: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Joins the chunks' log-probabilities into the probabilities of all rows."""
    return {name: torch.cat([chunk[name] for chunk in chunks]).exp() for name in chunks[0]}


def log_complement(log_probs: Float[Tensor, "N V"], ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
    """``log(1 - P)`` of some tokens: ``log1p(-P)``, or for P above one half the log of the sum over all other tokens.

    For P near 1, ``1 - P`` loses digits, and its gradient vanishes once P rounds to 1; the sum avoids both. Only the
    most probable token of a row can have P above one half, so one sum per row is enough.

    >>> log_complement(torch.tensor([[40.0, 0.0, 0.0]]).log_softmax(-1), torch.tensor([[0]]))
    tensor([[-39.3069]])
    """
    best = log_probs.detach().argmax(-1, keepdim=True)
    others = logsumexp_finite(log_probs.scatter(1, best, -torch.inf))[:, None]
    others = others.masked_fill(others == -torch.inf, math.log(torch.finfo(log_probs.dtype).tiny))
    at_ids = log_probs.gather(1, ids)
    dominant = (ids == best) & (at_ids > -math.log(2))
    # tokens computed by the sum are excluded before log1p, whose gradient is infinite at P = 1
    small = torch.log1p(-at_ids.masked_fill(dominant, -torch.inf).exp())
    return torch.where(dominant, others, small)
