"""All that a distribution says about one token a position, in one pass: what ``score --tokens`` and ``trace`` show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.functional.chunked_loss import row_chunks
from nextword.functional.probability import top_k

_CACHED = 2 * 2**20
"""Bytes of log-probabilities that a CPU looks at together: so many stay in its cache from one question to the next."""


_HEAP_SHARE = 6
"""A chunk's scores take a sixth of the budget: what is larger than 32 MiB Linux hands out page by page every time."""


@dataclass(frozen=True)
class TopTokens:
    """The K most probable tokens of each position, in decreasing order.

    Attributes:
        ids: Token ids.
        log_prob: Natural logs of their probabilities.
        shares: By component, the part of each one's probability that came from it.
    """

    ids: Int[np.ndarray, "N K"]
    log_prob: Float[np.ndarray, "N K"]
    shares: dict[str, Float[np.ndarray, "N K"]]

    def __getitem__(self, rows: slice) -> TopTokens:
        return TopTokens(self.ids[rows], self.log_prob[rows], _rows_of(self.shares, rows))


@dataclass(frozen=True)
class TopPlaces:
    """The P places of each position that most of its token's probability came from, strongest first.

    Attributes:
        at: Places in the text that ``places_in`` names, or in the documents of a store; -1 where there are fewer.
        share: The part of the token's probability that came from each; 0 where there are fewer.
        documents: In which document of a store each lies; None: the places are in a text that the model read.
    """

    at: Int[np.ndarray, "N P"]
    share: Float[np.ndarray, "N P"]
    documents: Int[np.ndarray, "N P"] | None = None

    def __getitem__(self, rows: slice) -> TopPlaces:
        documents = None if self.documents is None else self.documents[rows]
        return TopPlaces(self.at[rows], self.share[rows], documents)

    def moved(self, by: int) -> TopPlaces:
        """Places counted from elsewhere; those that are missing stay -1."""
        return replace(self, at=np.where(self.at < 0, self.at, self.at + by))


@dataclass(frozen=True)
class TokenFacts:
    """What was said of one token at each of N positions, in float64.

    Attributes:
        log_prob: Natural log of its probability.
        rank: One more than the tokens that are more probable.
        entropy: Of the whole distribution, in nats.
        shares: By component, the part of the token's probability that came from it. They add up to 1, or are all 0
            where the probability is 0.
        candidates: The most probable tokens.
        places: For components that point at places, where the token's probability came from.
    """

    log_prob: Float[np.ndarray, "N"]
    rank: Int[np.ndarray, "N"]
    entropy: Float[np.ndarray, "N"]
    shares: dict[str, Float[np.ndarray, "N"]]
    candidates: TopTokens
    places: dict[str, TopPlaces]

    def __getitem__(self, rows: slice) -> TokenFacts:
        return TokenFacts(
            log_prob=self.log_prob[rows],
            rank=self.rank[rows],
            entropy=self.entropy[rows],
            shares=_rows_of(self.shares, rows),
            candidates=self.candidates[rows],
            places={name: of[rows] for name, of in self.places.items()},
        )


def _rows_of(columns: dict[str, np.ndarray], rows: slice) -> dict[str, np.ndarray]:
    return {name: of[rows] for name, of in columns.items()}


def joined_facts(parts: Sequence[TokenFacts]) -> TokenFacts:
    """Facts about one text from those about its parts in order; all name as many candidates and places.

    Args:
        parts: At least one.
    """
    best, names = [part.candidates for part in parts], parts[0].places
    return TokenFacts(
        log_prob=np.concatenate([part.log_prob for part in parts]),
        rank=np.concatenate([part.rank for part in parts]),
        entropy=np.concatenate([part.entropy for part in parts]),
        shares=_joined_columns([part.shares for part in parts]),
        candidates=TopTokens(
            ids=np.concatenate([one.ids for one in best]),
            log_prob=np.concatenate([one.log_prob for one in best]),
            shares=_joined_columns([one.shares for one in best]),
        ),
        places={name: _joined_places([part.places[name] for part in parts]) for name in names},
    )


def _joined_columns(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _joined_places(parts: Sequence[TopPlaces]) -> TopPlaces:
    documents = [part.documents for part in parts if part.documents is not None]
    return TopPlaces(
        at=np.concatenate([part.at for part in parts]),
        share=np.concatenate([part.share for part in parts]),
        documents=np.concatenate(documents) if documents else None,
    )


@torch.no_grad()
def token_facts(distribution: NextToken, ids: Int[Tensor, "N"], *, candidates: int = 0, places: int = 0) -> TokenFacts:
    """What a distribution says about one token at each position.

    Rows are computed in chunks that fit the memory budget (``nextword.score_memory``), each product with the
    vocabulary once.

    Args:
        distribution: At N positions.
        ids: The token of each position.
        candidates: How many of the most probable tokens are named, at most the vocabulary.
        places: How many places are named for each component that points at some.

    Raises:
        ValueError: ``ids`` is not a token of the vocabulary for each position, or a number is out of range.
    """
    distribution._expect_rows(ids[:, None])
    size = distribution.vocab_size
    if not 0 <= candidates <= size:
        raise ValueError(f"candidates: must be from 0 to the vocabulary's {size} tokens ({candidates} given)")
    if places < 0:
        raise ValueError(f"places: must be 0 or more ({places} given)")
    row_bytes = max(distribution.row_bytes(), _HEAP_SHARE * distribution.vocab_size * 4)
    blocks: list[dict[str, Tensor]] = []
    for rows in row_chunks(len(ids), row_bytes, distribution.device) or [slice(0, 0)]:
        chunk, asked = distribution[rows].relative(), ids[rows]
        blocks += [_facts(chunk[part], asked[part], candidates, places) for part in _blocks(chunk)]
        del chunk  # before the next one is made
    return _assembled({name: _array([block[name] for block in blocks]) for name in blocks[0]})


def _blocks(chunk: NextToken) -> Iterator[slice]:
    size = max(1, _CACHED // (chunk.vocab_size * 4)) if chunk.device.type == "cpu" else max(1, len(chunk))
    return (slice(begin, begin + size) for begin in range(0, max(1, len(chunk)), size))


def _facts(block: NextToken, ids: Int[Tensor, "N"], candidates: int, places: int) -> dict[str, Tensor]:
    """Columns by name; ``shares``, ``candidates`` and ``places`` have one for each component, behind a slash.

    The block's numbers are log-probabilities up to a constant of each row, as all that it says of components is.
    """
    scores = block._log_probs()
    at_ids, best = scores.gather(1, ids[:, None]), top_k(scores, max(candidates, 1))
    normaliser, entropy = _normaliser_and_entropy(scores, peak=best[0][:, :1])
    asked, of_best = torch.cat([at_ids, best[0][:, :candidates]], 1), best[1][:, :candidates]
    facts = {
        "log_prob": (at_ids - normaliser)[:, 0],
        "rank": _count_above(scores, at_ids) + 1,
        "entropy": entropy,
        "candidate ids": of_best,
        "candidate log_prob": asked[:, 1:] - normaliser,
    }
    for name, log_part in block._log_sources(torch.cat([ids[:, None], of_best], 1)).items():
        share = _share(log_part, asked)
        facts[f"shares/{name}"], facts[f"candidates/{name}"] = share[:, 0], share[:, 1:]
    if places:
        stored = block.stands_in_store()
        for name, log_part in block._log_token_places(ids).items():
            strongest = _share(log_part, at_ids).topk(min(places, log_part.shape[1]))
            at, lacking = strongest.indices, (0, places - strongest.values.shape[1])
            facts[f"places/{name}"] = torch.nn.functional.pad(strongest.values, lacking)
            where = {"at": at}
            if name in stored:
                documents, at = stored[name].gather(1, at[:, :, None].expand(-1, -1, 2)).unbind(-1)
                where = {"at": at, "documents": documents}
            for key, of in where.items():
                of = of.masked_fill(strongest.values == 0, -1)
                facts[f"{key}/{name}"] = torch.nn.functional.pad(of, lacking, value=-1)
    return facts


def _share(log_part: Float[Tensor, "N K"], log_prob: Float[Tensor, "N #K"]) -> Float[Tensor, "N K"]:
    return (log_part - log_prob.masked_fill(log_prob == -torch.inf, 0.0)).exp()


def _count_above(log_probs: Float[Tensor, "N V"], level: Float[Tensor, "N 1"]) -> Int[Tensor, "N"]:
    # comparing into numbers, and not truth values, is what a CPU is fast at
    above = torch.gt(log_probs, level, out=torch.empty_like(log_probs))
    return above.sum(-1).long()


def _normaliser_and_entropy(
    scores: Float[Tensor, "N V"], peak: Float[Tensor, "N 1"]
) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N"]]:
    """Log-sum-exp of each row, and the entropy of its softmax, of the same exponentials."""
    lowered = scores - peak
    mass = lowered.exp()
    total = mass.sum(-1)
    moment = mass.mul_(lowered).sum(-1)
    if moment.isnan().any():  # 0 log 0 = 0
        moment = mass.masked_fill_(lowered == -torch.inf, 0.0).sum(-1)
    return peak + total.log()[:, None], total.log() - moment / total


def _array(parts: list[Tensor]) -> np.ndarray:
    whole = torch.cat(parts).cpu()
    return (whole.double() if whole.is_floating_point() else whole).numpy()


def _assembled(columns: dict[str, np.ndarray]) -> TokenFacts:
    def under(group: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(f"{group}/"): of for name, of in columns.items() if name.startswith(f"{group}/")}

    at, documents = under("at"), under("documents")
    return TokenFacts(
        log_prob=columns["log_prob"],
        rank=columns["rank"],
        entropy=columns["entropy"],
        shares=under("shares"),
        candidates=TopTokens(columns["candidate ids"], columns["candidate log_prob"], under("candidates")),
        places={name: TopPlaces(at[name], share, documents.get(name)) for name, share in under("places").items()},
    )
