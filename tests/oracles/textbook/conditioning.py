"""Textbook forms of the conditioners: an auxiliary text in a decoder's scores, in its layers, or before its text.

Source: He, Chen and Kim 2020 ("LMH", "DAU", "BERGPT"), sections 3.2 to 3.4; the soft prefix is of this library. One
row, one head and one position after the other.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def mean_pooled(states: Tensor, valid: Tensor) -> Tensor:
    """The mean of the states that are there; (A, E) to (E,)."""
    there = [state for state, inside in zip(states, valid, strict=True) if inside]
    return torch.stack(there).mean(0)


def max_pooled(states: Tensor, valid: Tensor) -> Tensor:
    """The largest number of each coordinate; (A, E) to (E,)."""
    there = [state for state, inside in zip(states, valid, strict=True) if inside]
    return torch.stack(there).max(0).values


POOLED = {"mean": mean_pooled, "max": max_pooled}


def lmh_scores(states: Tensor, pooled: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``z_t = [W U] [h_t; p] + b``, one matrix of V x (D + E). Source: section 3.2.

    Args:
        states: Of the decoder, (T, D).
        pooled: Of the encoder, (E,).
        weight: [W U], (V, D + E).
        bias: (V,).
    """
    return torch.stack([weight @ torch.cat([state, pooled]) + bias for state in states])


def dau_scores(scores: Tensor, pooled: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``z_t + (U p + b)``: what one layer makes of the pooled text is added to the decoder's scores. Source: 3.3."""
    adjustment = weight @ pooled + bias
    return torch.stack([score + adjustment for score in scores])


def layer_norm(states: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * g + b``. Source: Ba et al. 2016."""
    centred = states - states.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def gelu(x: Tensor) -> Tensor:
    """``x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, that of GPT-2. Source: Hendrycks and Gimpel 2016."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(queries: Tensor, keys: Tensor, values: Tensor, valid: Tensor, heads: int) -> Tensor:
    """``softmax(q_t . k_s / sqrt(d)) v_s`` in every head, side by side, over the places that are there. Source: eq. 3.

    Args:
        queries: (T, D).
        keys: (A, D).
        values: (A, D).
        valid: (A,), False at padding.
        heads: How many; each has d = D / heads coordinates.
    """
    d = queries.shape[1] // heads
    found = []
    for query in queries:
        parts = []
        for head in range(heads):
            own = slice(head * d, (head + 1) * d)
            exponents = {s: (query[own] @ keys[s, own]) / math.sqrt(d) for s in range(len(keys)) if valid[s]}
            total = torch.stack(list(exponents.values())).exp().sum()
            parts.append(sum(exponent.exp() / total * values[s, own] for s, exponent in exponents.items()))
        found.append(torch.cat(parts))
    return torch.stack(found)


def bergpt_block(states: Tensor, source: Tensor, valid: Tensor, weights: dict[str, Tensor], heads: int) -> Tensor:
    """``x <- x + O MHA(LN(x) Q, y K, y V)``, then ``x <- x + FF(LN(x))``. Source: section 3.4, eq. 4.

    Args:
        states: Those after self-attention and its residual connection, (T, D).
        source: Of the encoder, (A, E).
        valid: (A,).
        weights: By name of the linear map or norm and ``weight`` or ``bias``.
        heads: Attention heads.

    Returns:
        The new states.
    """

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Tensor) -> Tensor:
        return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    queries = linear("query", norm("norm", states))
    read = attention(queries, linear("key", source), linear("value", source), valid, heads)
    states = states + linear("merge", read)
    return states + linear("narrow", gelu(linear("widen", norm("feed_forward_norm", states))))


def prefix(source: Tensor, valid: Tensor, queries: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``W sum_s softmax_s(u_p . y_s / sqrt(E)) y_s + b`` for each of the P queries; (P, D)."""
    found = []
    for query in queries:
        there = [state for state, inside in zip(source, valid, strict=True) if inside]
        exponents = torch.stack([query @ state / math.sqrt(len(query)) for state in there])
        shares = exponents.exp() / exponents.exp().sum()
        found.append(weight @ sum(share * state for share, state in zip(shares, there, strict=True)) + bias)
    return torch.stack(found)


def gpt2_states(transformer: Any, ids: Tensor, blocks: dict[int, Any]) -> Tensor:
    """The last states of one text, layer after layer of a GPT-2, with something after some self-attentions.

    Args:
        transformer: A GPT-2 without output layer; of its layers the parts are called, one after the other.
        ids: One text, (T,).
        blocks: By layer, what makes new states of those after self-attention.
    """
    mask = torch.full((len(ids), len(ids)), -math.inf, dtype=transformer.wte.weight.dtype).triu(1)
    states = transformer.wte(ids) + transformer.wpe(torch.arange(len(ids)))
    for number, layer in enumerate(transformer.h):
        states = states + layer.attn(layer.ln_1(states)[None], attention_mask=mask[None, None])[0][0]
        if number in blocks:
            states = blocks[number](states)
        states = states + layer.mlp(layer.ln_2(states)[None])[0]
    return transformer.ln_f(states)
