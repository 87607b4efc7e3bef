"""Textbook forms of the partitions of the vocabulary: words of the context, of the source, the best candidates.

One position after the other, one word after the other. Nothing here imports the library. ``q_t`` is what projections
read (``heads.multi_input`` or the state itself), ``w_v`` a row of the output embedding.

Source throughout: CPR (Chang et al. 2023). The published code differs where each form says so; besides, it divides sums
over the places of a word by their number plus 1e-8 or 1e-10, and never touches the token with id 100.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.oracles.textbook import heads

Map = tuple[Tensor, Tensor | None]
"""Weight and bias of a projection."""
Places = dict[int, list[int]]
"""Where each word stands."""


@dataclass(frozen=True)
class Text:
    """What a decoder has read: ``q_t`` (B, T, Q), token ids (B, T), and which are real (B, T), all where None."""

    inputs: Tensor
    ids: Tensor
    mask: Tensor | None = None


@dataclass(frozen=True)
class Source:
    """What an encoder has read: its last states (B, E, _), token ids (B, E), and which are real (B, E)."""

    states: Tensor
    ids: Tensor
    mask: Tensor | None = None


def context_positions(text: Text, b: int, t: int, include_current: bool = False) -> Places:
    """``J_t(v) = {s < t: x_s = v}`` for every word that has such places; padding has none.

    With ``include_current`` ``s <= t``, as the paper's figure has it; the published code has ``s < t``.
    """
    return _places(text.ids[b], text.mask[b] if text.mask is not None else None, t + include_current)


def source_positions(source: Source, b: int) -> Places:
    """``I(v) = {s: y_s = v}`` for every word of the source; padding has no places.

    Differs from the published code, where padding is a word of the source.
    """
    return _places(source.ids[b], source.mask[b] if source.mask is not None else None, source.ids.shape[1])


def _places(ids: Tensor, real: Tensor | None, end: int) -> Places:
    positions: Places = {}
    for s in range(end):
        if real is None or bool(real[s]):
            positions.setdefault(int(ids[s]), []).append(s)
    return positions


def changed(scores: Tensor, values: Mapping[int, Tensor], mode: str) -> Tensor:
    """``z_v := value_v`` ("assign") or ``z_v += value_v`` ("add") for the words with a value.

    Args:
        scores: z of one position, (V,).
        values: The value of each word that has one.
        mode: "assign" or "add".
    """
    rows = list(scores)
    for v, value in values.items():
        rows[v] = value if mode == "assign" else rows[v] + value
    return torch.stack(rows)


def reranked(
    scores: Tensor, steps: Mapping[int, Tensor], mode: str = "assign", candidates: str = "previous"
) -> tuple[Tensor, list[tuple[int, list[int]]]]:
    """One step after the other, the largest k first: the k best tokens get (or add) the step's score.

    Which are best is asked of the whole vector as the step before left it ("previous", which the published scripts
    use), or as it was before the first ("initial"). The paper's figure takes the candidates of a step among those of
    the step before.

    Args:
        scores: z of one position, (V,).
        steps: k and what the step says of every token, ``R_k q . w_v``, (V,).
        mode: "assign" or "add".
        candidates: "previous" or "initial".

    Returns:
        The scores, and k with the candidates of each step in its order.
    """
    start, chosen = scores, []
    for k in sorted(steps, reverse=True):
        ranked = (scores if candidates == "previous" else start).detach().argsort(descending=True)
        best = ranked[:k].tolist()
        scores = changed(scores, {v: steps[k][v] for v in best}, mode)
        chosen.append((k, best))
    return scores, chosen


def mean_product(query: Tensor, embeddings: Tensor, positions: Sequence[int]) -> Tensor:
    """``mean_{s in places} p . e_s``.

    Args:
        query: p, (D,).
        embeddings: e, (S, D).
        places: At least one.
    """
    return torch.stack([query @ embeddings[s] for s in positions]).mean()


@dataclass(frozen=True)
class Partitions:
    """The projections of a head with partitions; those it does not have are None.

    Args:
        base: S.
        rerankers: R of each k.
        context: C.
        encoder: E, for which the forms need a source.
        local: PD and LD, which see the decoder's own past.
        source_local: PE and LE, LE being applied to the encoder's states.
        mode: How C, E and P change a score, "assign" or "add".
        rerank_mode: How R changes a score.
        candidates: Where the steps of R find their candidates, "previous" or "initial".
        include_current: Whether the current token is a word of its own context.
    """

    base: Map
    rerankers: Mapping[int, Map] = field(default_factory=dict)
    context: Map | None = None
    encoder: Map | None = None
    local: tuple[Map, Map] | None = None
    source_local: tuple[Map, Map] | None = None
    mode: str = "assign"
    rerank_mode: str = "assign"
    candidates: str = "previous"
    include_current: bool = False


def word_values(
    query: Tensor, positions: Places, projection: Map | None, local: tuple[Tensor, Tensor] | None, weight: Tensor
) -> dict[int, Tensor]:
    """``F q_t . w_v + mean_{s in places(v)} p_t . e_s`` for every word that has places.

    The first term is there with a projection F (C or E), the second with local embeddings.

    Args:
        query: q_t, (Q,).
        places: Where each word stands.
        projection: F, or None.
        local: ``p_t`` (D,) and ``e`` (S, D), or None.
        weight: Output embedding, (V, D).
    """
    values = {}
    for v, at in positions.items():
        terms = []
        if projection is not None:
            terms.append(heads.project(query, *projection) @ weight[v])
        if local is not None:
            terms.append(mean_product(*local, at))
        values[v] = torch.stack(terms).sum()
    return values


def partitioned_scores(parts: Partitions, text: Text, weight: Tensor, source: Source | None = None) -> Tensor:
    """Scores of a softmax whose vocabulary is partitioned, (B, T, V).

    From ``z_v = S q_t . w_v`` on, changes are made in this order: rerankers, the largest k first; E, to words of the
    source; C, to words of the context. In assign mode therefore, where the first line that holds decides::

        z_v = C q_t . w_v + mean_{s in J_t(v)} PD q_t . LD q_s    if v occurred before t
            = E q_t . w_v + mean_{s in I(v)}   PE q_t . LE e_s    if v is a word of the source
            = R_k q_t . w_v                                       for the smallest k whose candidates hold v
            = S q_t . w_v                                         otherwise

    The means are there with local embeddings only. Local embeddings without C (without E) change the words of the
    context (source) by the mean alone.
    """
    return _rows(text, lambda b, t: _scores_at(parts, text, weight, source, (b, t)))


def _scores_at(
    parts: Partitions, text: Text, weight: Tensor, source: Source | None, position: tuple[int, int]
) -> Tensor:
    b, t = position
    query = text.inputs[b, t]
    steps = {k: heads.scores(heads.project(query, *projection), weight) for k, projection in parts.rerankers.items()}
    base = heads.scores(heads.project(query, *parts.base), weight)
    scores, _ = reranked(base, steps, parts.rerank_mode, parts.candidates)
    if parts.encoder is not None or parts.source_local is not None:
        assert source is not None
        local = None
        if parts.source_local is not None:
            asks, embeds = parts.source_local
            local = heads.project(query, *asks), heads.project(source.states[b], *embeds)
        values = word_values(query, source_positions(source, b), parts.encoder, local, weight)
        scores = changed(scores, values, parts.mode)
    if parts.context is not None or parts.local is not None:
        local = None
        if parts.local is not None:
            asks, embeds = parts.local
            local = heads.project(query, *asks), heads.project(text.inputs[b], *embeds)
        positions = context_positions(text, b, t, parts.include_current)
        scores = changed(scores, word_values(query, positions, parts.context, local, weight), parts.mode)
    return scores


def _rows(text: Text, form: Callable[[int, int], Tensor]) -> Tensor:
    batch, length = text.ids.shape
    return torch.stack([torch.stack([form(b, t) for t in range(length)]) for b in range(batch)])


def log_partitioned(parts: Partitions, text: Text, weight: Tensor, source: Source | None = None) -> Tensor:
    """``log softmax`` of :func:`partitioned_scores`, (B, T, V)."""
    return heads.log_softmax(partitioned_scores(parts, text, weight, source))


def log_partitioned_mixture(
    log_weights: Tensor,
    parts: Partitions,
    others: Sequence[Map],
    text: Text,
    weight: Tensor,
    source: Source | None = None,
) -> Tensor:
    """``P = pi_1 P_partitioned + sum_{i > 1} pi_i softmax(W P_i q_t)``: only the first component has partitions.

    Args:
        log_weights: From one of the gates, (B, T, K).
        parts: The first component.
        others: The projections of the K - 1 others.
        text: What the decoder has read.
        weight: Output embedding, (V, D).
        source: What the encoder has read.
    """
    plain = [heads.log_softmax(heads.scores(heads.project(text.inputs, *other), weight)) for other in others]
    return heads.log_mixture(log_weights, [log_partitioned(parts, text, weight, source), *plain])
