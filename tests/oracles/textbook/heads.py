"""Textbook forms of the output layers without memory, and of the generic ways to join distributions.

Plain torch, unchunked, one position after the other where that reads like the formula. Nothing here is fast, and
nothing here imports the library. Everything returns log-probabilities in nats, -inf where the probability is 0, and
works in the type it is given (tests give float64). Autograd of these forms is the reference for gradients.

"CPR" is Chang et al. 2023, "Revisiting the architectures like pointer networks ..." (Softmax-CPR).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def scores(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``z_v = w_v . h + b_v``.

    Source: the output layer of every language model.

    Args:
        states: (..., D).
        weight: Output embedding, (V, D).
        bias: (V,).
    """
    product = states @ weight.T
    return product if bias is None else product + bias


def soft_cap(logits: Tensor, cap: float) -> Tensor:
    """``cap * tanh(z / cap)``. Source: Gemma 2, final_logit_softcapping."""
    return cap * torch.tanh(logits / cap)


def multiply(logits: Tensor, factor: float) -> Tensor:
    """``factor * z``. Source: Cohere, logit_scale."""
    return factor * logits


def divide(logits: Tensor, divisor: float) -> Tensor:
    """``z / divisor``. Source: Granite, logits_scaling."""
    return logits / divisor


def add_bias(logits: Tensor, bias: Tensor) -> Tensor:
    """``z_v + b_v``. Source: BART, final_logits_bias (added after the output layer, before normalising)."""
    return logits + bias


def scale_tied(states: Tensor) -> Tensor:
    """``d^(-1/2) h``. Source: T5 with tied embeddings, applied to every decoder state before the output layer."""
    return states * states.shape[-1] ** -0.5


def log_softmax(logits: Tensor) -> Tensor:
    """``log P(v) = z_v - log sum_w exp z_w``. Source: Bridle 1990."""
    return logits - torch.logsumexp(logits, -1, keepdim=True)


def project(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``f = P q + b``, a query of the output embedding ("facet").

    Source: CPR; Yang et al. 2018 (there with a tanh, which CPR leaves out).

    Args:
        inputs: (..., Q).
        weight: (D, Q).
        bias: (D,).
    """
    product = inputs @ weight.T
    return product if bias is None else product + bias


def gelu(x: Tensor) -> Tensor:
    """``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``. Source: Hendrycks and Gimpel 2016, the tanh form."""
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def multi_input(
    layers: Sequence[Tensor], weight: Tensor, bias: Tensor, window: int, mask: Tensor | None = None
) -> Tensor:
    """``q_t = concat(h_t, gelu(A u_t + a))``, ``u_t`` = all ``layer_i[t-j]``, layers i outer, offsets j inner.

    Where t-j lies before the start, or at padding, zeros stand in. Source: CPR, "multiple input hidden states" (Mi).

    Args:
        layers: (B, T, D) each, last layer (after the final norm) first, then the one before it (not normalised), ...
        weight: A, (M D, layers * window * D).
        bias: a, (M D,).
        window: How many positions are read: 3 reads t, t-1 and t-2.
        mask: (B, T), true at real tokens.

    Returns:
        (B, T, (1 + M) D).
    """
    batch, length, width = layers[0].shape
    rows = []
    for b in range(batch):
        for t in range(length):
            read = []
            for layer in layers:
                for j in range(window):
                    known = t - j >= 0 and (mask is None or bool(mask[b, t - j]))
                    read.append(layer[b, t - j] if known else layer.new_zeros(width))
            rows.append(torch.cat([layers[0][b, t], gelu(weight @ torch.cat(read) + bias)]))
    return torch.stack(rows).unflatten(0, (batch, length))


def log_sigsoftmax(logits: Tensor) -> Tensor:
    """``P(v) = exp(z_v) sigmoid(z_v) / sum``, in log space with ``log sigmoid(z) = -log(1 + exp(-z))``, no epsilon.

    Source: Kanai et al. 2018, "Sigsoftmax", eq. 10. The published CPR code adds 1e-20 to the sigmoid.
    """
    return log_softmax(logits - torch.logaddexp(torch.zeros_like(logits), -logits))


def log_mixture(log_weights: Tensor, log_probs: Sequence[Tensor]) -> Tensor:
    """``log P(v) = log sum_i exp(log pi_i + log P_i(v))``. Source: Yang et al. 2018, eq. 2 (mixture of softmaxes).

    Args:
        log_weights: (..., K).
        log_probs: K times (..., V).
    """
    parts = [log_weights[..., i, None] + part for i, part in enumerate(log_probs)]
    return torch.logsumexp(torch.stack(parts), 0)


def dynamic_gate(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``log pi_t = log softmax(G q_t + g)``, (..., K). Source: Yang et al. 2018; CPR with the gate on ``q_t``.

    Args:
        inputs: (..., Q).
        weight: G, (K, Q).
        bias: g, (K,).
    """
    return log_softmax(inputs @ weight.T + bias)


def static_gate(logits: Tensor, positions: Sequence[int]) -> Tensor:
    """``log pi = log softmax(r)``, the same at every position: one row of K for each. Source: CPR, "static"."""
    return log_softmax(logits).expand(*positions, len(logits))


def uniform_gate(parts: int, like: Tensor) -> Tensor:
    """``log pi_i = -log K`` at every position of ``like`` (..., any): (..., K). Source: CPR."""
    return like.new_full((*like.shape[:-1], parts), 1.0 / parts).log()


def log_mixture_of_softmaxes(
    inputs: Tensor, projections: Sequence[tuple[Tensor, Tensor | None]], vocabulary: Tensor, log_weights: Tensor
) -> Tensor:
    """``P = sum_i pi_i softmax(W (P_i q + b_i))``. Source: Yang et al. 2018, eq. 2; CPR without the tanh.

    Args:
        inputs: ``q``, (..., Q).
        projections: Weight and bias of each part.
        vocabulary: W, (V, D).
        log_weights: From one of the gates, (..., K).
    """
    parts = [log_softmax(scores(project(inputs, weight, bias), vocabulary)) for weight, bias in projections]
    return log_mixture(log_weights, parts)


def log_interpolated(gate: Tensor, log_base: Tensor, attention: Tensor, ids: Tensor, visible: Tensor) -> Tensor:
    """``P(v) = g A(v) + (1 - g) sum_{s visible, x_s = v} a_s`` with ``a = softmax`` of the visible scores.

    Where nothing is visible the attention has nothing to say, so ``P = A`` whatever the gate.
    Source: See et al. 2017, eq. 9 (pointer generator); Merity et al. 2017 (pointer sentinel).

    Args:
        gate: g, (N,), in [0, 1].
        log_base: log A, (N, V).
        attention: Unnormalised attention scores, (N, S).
        ids: Token of each attended place, (N, S).
        visible: (N, S).
    """
    rows = []
    for n in range(len(gate)):
        seen = visible[n].nonzero()[:, 0]
        if len(seen) == 0:
            rows.append(log_base[n])
            continue
        weights = torch.exp(log_softmax(attention[n, seen]))
        copied = torch.zeros_like(log_base[n])
        for v in ids[n, seen].unique():
            copied[v] = weights[ids[n, seen] == v].sum()
        rows.append((gate[n] * log_base[n].exp() + (1 - gate[n]) * copied).log())
    return torch.stack(rows)


def log_factorised(class_scores: Tensor, token_scores: Tensor, token_class: Tensor) -> Tensor:
    """``log P(v) = log P(c(v)) + log P(v | c(v))``: softmax over classes, times softmax over the tokens of the class.

    Source: Choi et al. 2020, F2-Softmax, eq. 2.

    Args:
        class_scores: (N, C).
        token_scores: (N, V).
        token_class: (V,), 0 to C - 1.
    """
    log_class = log_softmax(class_scores)
    log_probs = torch.zeros_like(token_scores)
    for c in range(class_scores.shape[-1]):
        own = token_class == c
        log_probs[:, own] = log_class[:, c, None] + log_softmax(token_scores[:, own])
    return log_probs
