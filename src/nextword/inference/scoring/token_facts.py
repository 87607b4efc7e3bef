"""Facts about one token per position, for ``nextword score --tokens`` and ``nw.trace``, computed in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from nextword.distribution import NextToken
from nextword.functional.chunked_loss import row_chunks
from nextword.functional.probability import top_k

_CACHED = 2 * 2**20
"""Number of bytes of log-probabilities that are computed together on a CPU, so that they stay in its cache."""

_HEAP_SHARE = 6
"""A chunk's scores take a sixth of the memory budget, because Linux allocates blocks above 32 MiB slowly."""


@dataclass(frozen=True)
class TopTokens:
    """The K most probable tokens at each of N positions, the most probable first.

    Attributes:
        ids: Token ids.
        log_prob: Natural logarithms of the tokens' probabilities.
        shares: Mapping from each component of the distribution (such as ``cache``) to its share of each probability.
    """

    ids: Int[np.ndarray, "N K"]
    log_prob: Float[np.ndarray, "N K"]
    shares: dict[str, Float[np.ndarray, "N K"]]


@dataclass(frozen=True)
class TopPositions:
    """For each token, the P positions that contribute most to its probability, strongest first.

    Attributes:
        at: Positions in the text that ``NextToken.positions_in`` names, or in documents; -1 if fewer than P contribute.
        share: Share of the token's probability that comes from each position; 0 where ``at`` is -1.
        documents: Number of the document of each position in a datastore. None if positions are in a text that the
            model read.
    """

    at: Int[np.ndarray, "N P"]
    share: Float[np.ndarray, "N P"]
    documents: Int[np.ndarray, "N P"] | None = None

    def moved(self, by: int) -> TopPositions:
        """Returns a copy with ``by`` added to all positions except -1."""
        return replace(self, at=np.where(self.at < 0, self.at, self.at + by))


@dataclass(frozen=True)
class TokenFacts:
    """Facts about one token at each of N positions, in float64.

    Attributes:
        log_prob: Natural logarithm of the token's probability.
        rank: 1 plus the number of more probable tokens.
        entropy: Entropy of the whole distribution, in nats.
        shares: Mapping from each component of the distribution (such as ``cache``) to its share of the token's
            probability. The shares of a token sum to 1, or are all 0 if the probability is 0.
        candidates: The most probable tokens, each with its log-probability and shares.
        positions: Mapping from each component that copies from positions to the positions that contribute most.
    """

    log_prob: Float[np.ndarray, "N"]
    rank: Int[np.ndarray, "N"]
    entropy: Float[np.ndarray, "N"]
    shares: dict[str, Float[np.ndarray, "N"]]
    candidates: TopTokens
    positions: dict[str, TopPositions]

    def __getitem__(self, rows: slice) -> TokenFacts:
        found: TokenFacts = _each(lambda columns: columns[0][rows], self)
        return found

    def split(self, texts: Sequence[Any]) -> list[TokenFacts]:
        """Returns one object per text. This object must have the facts about the targets of all ``texts``, in order."""
        ends = accumulate((len(text.target) for text in texts), initial=0)
        return [self[begin:end] for begin, end in pairwise(ends)]


def joined_facts(parts: Sequence[TokenFacts]) -> TokenFacts:
    """Joins facts about consecutive parts of a text, which all list the same number of candidates and positions."""
    found: TokenFacts = _each(np.concatenate, *parts)
    return found


@dataclass(frozen=True, eq=False)
class TextFacts:
    """Facts about all or some tokens of a text.

    Attributes:
        facts: Facts about each token. Positions count from 0, in "text" from the beginning of the context.
        texts: Mapping from each component that copies from positions to the text that the positions are in: "text",
            "source" (also an auxiliary text), or "store" (documents of a datastore).
    """

    facts: TokenFacts
    texts: Mapping[str, str]

    @classmethod
    def joined(cls, parts: Sequence[TextFacts]) -> TextFacts:
        """Joins ``parts``, the facts about the windows of one text, in order."""
        return cls(joined_facts([part.facts for part in parts]), parts[0].texts)


def span_facts(distribution: NextToken, ids: Int[Tensor, "N"], spans: Sequence[Any], **numbers: int) -> list[TextFacts]:
    """A ``Question`` that returns facts about each span's target tokens. ``numbers`` are passed to ``token_facts``."""
    facts, texts = token_facts(distribution, ids, **numbers), distribution.positions_in()
    found = []
    for span, said in zip(spans, facts.split(spans), strict=True):
        moved = {name: of.moved(span.begin) if texts[name] == "text" else of for name, of in said.positions.items()}
        found.append(TextFacts(replace(said, positions=moved), texts))
    return found


def _each(make: Callable[[Sequence[Any]], Any], *parts: Any) -> Any:
    """Applies ``make`` to each column of all ``parts``."""
    first = parts[0]
    if isinstance(first, np.ndarray | Tensor):
        return make(parts)
    if isinstance(first, dict):
        return {name: _each(make, *(part[name] for part in parts)) for name in first}
    return None if first is None else replace(first, **_each(make, *map(vars, parts)))


@torch.no_grad()
def token_facts(
    distribution: NextToken, ids: Int[Tensor, "N"], *, candidates: int = 0, positions: int = 0
) -> TokenFacts:
    """Returns facts about the token ``ids[n]`` under row n of ``distribution``, for every n.

    Rows are computed in chunks that fit the memory budget (``nextword.score_memory``). Each product with the output
    embedding is computed once. ``candidates`` is the number of most probable tokens to list, and ``positions``
    the number of positions to list for each component that copies from positions.

    Raises:
        ValueError: If ``ids`` is not one known token per row, or ``candidates`` or ``positions`` is out of range.
    """
    distribution._expect_rows(ids[:, None])
    size = distribution.vocab_size
    if not 0 <= candidates <= size:
        raise ValueError(f"candidates: must be from 0 to the vocabulary's {size} tokens ({candidates} given)")
    if positions < 0:
        raise ValueError(f"positions: must be 0 or more ({positions} given)")
    row_bytes = max(distribution.row_bytes(), _HEAP_SHARE * distribution.vocab_size * 4)
    blocks: list[dict[str, Any]] = []
    for rows in row_chunks(len(ids), row_bytes, distribution.device) or [slice(0, 0)]:
        chunk, asked = distribution[rows].relative(), ids[rows]
        length = max(1, len(chunk))
        step = max(1, _CACHED // (size * 4)) if chunk.device.type == "cpu" else length
        for begin in range(0, length, step):
            part = slice(begin, begin + step)
            blocks.append(_facts(chunk[part], asked[part], candidates, positions))
        del chunk  # frees the memory before the next chunk is computed
    columns = _each(_array, *blocks)
    columns["candidates"] = TopTokens(**columns["candidates"])
    columns["positions"] = {name: TopPositions(**of) for name, of in columns["positions"].items()}
    return TokenFacts(**columns)


def _facts(block: NextToken, ids: Int[Tensor, "N"], candidates: int, positions: int) -> dict[str, Any]:
    # scores of the block are log-probabilities plus a constant of each row, and so are the values of its components
    scores = block._log_probs()
    at_ids, best = scores.gather(1, ids[:, None]), top_k(scores, max(candidates, 1))
    normaliser, entropy = _normaliser_and_entropy(scores, peak=best[0][:, :1])
    asked, of_best = torch.cat([at_ids, best[0][:, :candidates]], 1), best[1][:, :candidates]
    # on a CPU, a comparison that writes floating-point numbers is faster than one that writes truth values
    rank = torch.gt(scores, at_ids, out=torch.empty_like(scores)).sum(-1).long() + 1
    tokens = torch.cat([ids[:, None], of_best], 1)
    shares = {name: _share(log_part, asked) for name, log_part in block._log_sources(tokens).items()}
    return {
        "log_prob": (at_ids - normaliser)[:, 0],
        "rank": rank,
        "entropy": entropy,
        "shares": {name: share[:, 0] for name, share in shares.items()},
        "candidates": {
            "ids": of_best,
            "log_prob": asked[:, 1:] - normaliser,
            "shares": {name: share[:, 1:] for name, share in shares.items()},
        },
        "positions": _strongest_positions(block, ids, at_ids, positions) if positions else {},
    }


def _strongest_positions(
    block: NextToken, ids: Int[Tensor, "N"], at_ids: Float[Tensor, "N 1"], count: int
) -> dict[str, dict[str, Tensor]]:
    found, stored = {}, block.stands_in_store()
    for name, log_part in block._log_token_positions(ids).items():
        share, at = _share(log_part, at_ids).topk(min(count, log_part.shape[1]))
        where = {"at": at}
        if name in stored:
            documents, at = stored[name].gather(1, at[:, :, None].expand(-1, -1, 2)).unbind(-1)
            where = {"at": at, "documents": documents}
        lacking = (0, count - share.shape[1])
        found[name] = {key: pad(of.masked_fill(share == 0, -1), lacking, value=-1) for key, of in where.items()}
        found[name]["share"] = pad(share, lacking)
    return found


def _share(log_part: Float[Tensor, "N K"], log_prob: Float[Tensor, "N #K"]) -> Float[Tensor, "N K"]:
    return (log_part - log_prob.masked_fill(log_prob == -torch.inf, 0.0)).exp()


def _normaliser_and_entropy(
    scores: Float[Tensor, "N V"], peak: Float[Tensor, "N 1"]
) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N"]]:
    """Log-sum-exp of each row and the entropy of its softmax, from the same exponentials."""
    lowered = scores - peak
    mass = lowered.exp()
    total = mass.sum(-1)
    moment = mass.mul_(lowered).sum(-1)
    if moment.isnan().any():  # 0 log 0 = 0
        moment = mass.masked_fill_(lowered == -torch.inf, 0.0).sum(-1)
    return peak + total.log()[:, None], total.log() - moment / total


def _array(parts: Sequence[Tensor]) -> np.ndarray:
    whole = torch.cat(list(parts)).cpu()
    return (whole.double() if whole.is_floating_point() else whole).numpy()
