"""Textbook forms of the pointer networks: CopyNet, pointer-generator, pointer-sentinel.

Each looks at places ``s`` with a token and a local embedding ``e_s``: a decoder-only model at its own past, an
encoder-decoder model at its source. Nothing here imports the library.

Source of all three in this shape: CPR (Chang et al. 2023), baselines. Differs from the published code: padding is no
place, and in a decoder-only model the attention is normalised over the places before t. Published, it is normalised
over all places, later ones too, whose share is then lost: the probabilities depend on the future and do not sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.oracles.textbook import heads, memory
from tests.oracles.textbook.partitions import Map, Source, Text


@dataclass(frozen=True)
class Places:
    """What can be pointed at.

    Args:
        embeddings: e, (B, S, D).
        ids: (B, S).
        visible: Which places position t may point at, (B, T, S). The others count nowhere.
    """

    embeddings: Tensor
    ids: Tensor
    visible: Tensor


def past(text: Text, embeds: Map, include_current: bool = False) -> Places:
    """A decoder's own real places: ``e_s = LD q_s``, seen from t when ``s < t`` (``include_current``: ``s <= t``)."""
    batch, length = text.ids.shape
    visible = torch.zeros(batch, length, length, dtype=torch.bool)
    for b in range(batch):
        for t in range(length):
            for s in range(t + include_current):
                visible[b, t, s] = text.mask is None or bool(text.mask[b, s])
    return Places(heads.project(text.inputs, *embeds), text.ids, visible)


def source(text: Text, read: Source, embeds: Map) -> Places:
    """The real places of the source: ``e_s = LE enc_s``, seen from every position."""
    real = torch.ones_like(read.ids, dtype=torch.bool) if read.mask is None else read.mask.bool()
    visible = real[:, None, :].expand(-1, text.ids.shape[1], -1)
    return Places(heads.project(read.states, *embeds), read.ids, visible)


def product_scores(queries: Tensor, positions: Places, tanh: bool = True) -> Tensor:
    """``p_t . tanh(e_s)``, or ``p_t . e_s``, (B, T, S)."""
    embeddings = torch.tanh(positions.embeddings) if tanh else positions.embeddings
    return queries @ embeddings.mT


def additive_scores(queries: Tensor, positions: Places, vector: Tensor, bias: Tensor) -> Tensor:
    """``a . tanh(p_t + e_s + bias)``, (B, T, S). Source: Bahdanau et al. 2015; See et al. 2017, eq. 1."""
    return torch.tanh(queries[:, :, None] + positions.embeddings[:, None] + bias) @ vector


def log_copynet(logits: Tensor, attention: Tensor, positions: Places) -> Tensor:
    """``P(v) = (exp z_v + sum_{s: x_s = v} exp c_ts) / (the same, summed over v)``, (B, T, V).

    This is the joint softmax of a cache whose entries are the places. Source: Gu et al. 2016, eq. 7, over one
    vocabulary; ``c_ts = p_t . tanh(e_s) + beta``. The published decoder-only code never uses its beta, and its "cache"
    is this without the tanh. It adds 1e-20 to each sum.

    Args:
        logits: z, (B, T, V).
        attention: c, (B, T, S).
        places: What can be copied.
    """
    return memory.log_joint(logits, memory.Memory(attention, positions.ids, positions.visible))


def log_pointer_generator(logits: Tensor, attention: Tensor, gate: Tensor, positions: Places) -> Tensor:
    """``P(v) = g_t softmax(z)_v + (1 - g_t) sum_{s: x_s = v} a_ts``, (B, T, V).

    ``a`` is the softmax of the visible scores. Where nothing is visible ``g_t = 1``. Source: See et al. 2017, eq. 9.

    Args:
        logits: z, (B, T, V).
        attention: Scores before the softmax, (B, T, S).
        gate: Logit of g, ``w . h_t + b``, (B, T).
        places: What can be pointed at.
    """
    rows = []
    for b in range(len(logits)):
        ids = positions.ids[b].expand(logits.shape[1], -1)
        base = heads.log_softmax(logits[b])
        rows.append(heads.log_interpolated(torch.sigmoid(gate[b]), base, attention[b], ids, positions.visible[b]))
    return torch.stack(rows)


def log_pointer_sentinel(logits: Tensor, attention: Tensor, sentinel: Tensor, positions: Places) -> Tensor:
    """``P(v) = g_t softmax(z)_v + sum_{s: x_s = v} a_ts``, ``(a_t, g_t)`` one softmax over places and sentinel.

    Where nothing is visible the sentinel has all the mass. Source: Merity et al. 2017, eq. 5 to 8.

    Args:
        logits: z, (B, T, V).
        attention: Scores of the places, (B, T, S).
        sentinel: Score of the sentinel, ``w . h_t + b``, (B, T).
        places: What can be pointed at.
    """
    rows = []
    for b in range(len(logits)):
        for t in range(logits.shape[1]):
            seen = positions.visible[b, t].nonzero()[:, 0]
            shares = torch.cat([attention[b, t, seen], sentinel[b, t, None]]).softmax(0)
            probs = list(shares[-1] * logits[b, t].softmax(0))
            for share, s in zip(shares, seen, strict=False):
                v = int(positions.ids[b, s])
                probs[v] = probs[v] + share
            rows.append(torch.stack(probs).log())
    return torch.stack(rows).unflatten(0, logits.shape[:2])
