"""Initial values with which a head changes a pretrained model's predictions only a little.

When a head is attached, the model is run once on random tokens. From the resulting states and scores, each head that
adds something to the softmax fits its initial values: a cache its temperature and share, a gate its bias.

Mixing in another distribution with the share ``w`` costs at most ``-log(1 - w)`` nats per token on any text. A fitted
share is at most 0.03, which costs at most 0.031, and keeps the model's most likely token at 98 % of the random tokens.
"""

from __future__ import annotations

import math
from operator import itemgetter

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.functional.copy_scores import CopyScores
from nextword.functional.probability import at_least_float32

MOST = 0.03
"""Largest initial share of the probability for what a head adds to the softmax."""

SHARPNESS = 16.0
"""Similarity, at the fitted temperature, of a state with itself. At the best temperature of an untrained cache, this
similarity is 10 to 16 (SmolLM2-135M: articles, stories, code). States of random tokens have somewhat larger norms than
states of text."""

_TOKENS = 512
_CHANGED = 0.02
"""Share of the positions at which a head may change the most likely token."""
_SURE = 0.9
"""The model counts as sure at positions where the probability of its most likely token is above this quantile."""
_LEAST = 1e-6
"""Smallest initial share of a gate, so that it has a gradient in single precision."""
_ROWS = 32
"""Number of positions whose scores over the vocabulary are in memory at once."""


def probe_tokens(vocab_size: int) -> Int[Tensor, "M"]:
    """512 random token ids below ``vocab_size``, the same at each call."""
    return torch.randint(vocab_size, (_TOKENS,), generator=torch.Generator().manual_seed(0))


def fitted_temperature(queries: Float[Tensor, "N D"], keys: Float[Tensor, "*rows D"]) -> float:
    """The temperature at which a query and a key of mean norm and equal direction have the similarity ``SHARPNESS``.

    Similarity is the dot product, divided by the square root of D and by the temperature.
    """
    lengths = [at_least_float32(states).norm(dim=-1).mean() for states in (queries, keys)]
    similarity = float(lengths[0] * lengths[1]) / math.sqrt(queries.shape[-1])
    return float(f"{similarity / SHARPNESS:.3g}") if similarity > 0 else 1.0


def unobtrusive_share(softmax: NextToken, added: CopyScores) -> float:
    """The largest share for ``added`` that keeps the most likely token of ``softmax`` at nearly all positions.

    P is the distribution ``softmax`` at a position, u its most likely token, and c the distribution of the ``added``
    tokens. Another token v becomes more likely than u if the weight of c is above the w with
    ``(1 - w) P(u) + w c(u) = (1 - w) P(v) + w c(v)``. The smallest such w over all v is the limit of the position.

    The result is the 2 % quantile of the limits of all positions, but at most ``MOST``. It is also at most half the
    square of the 90 % quantile of P(u), because in an untrained model a thousand tokens are nearly as likely as u.
    """
    rows = torch.split(torch.arange(len(softmax), device=softmax.device), _ROWS)
    parts = [_overtaking(softmax[some].computed(), added.map(itemgetter(some))) for some in rows]
    weight, likeliest = (torch.cat(column) for column in zip(*parts, strict=True))
    seen = weight.isfinite() & likeliest.isfinite()
    if not seen.any():
        return MOST
    share = min(weight[seen].quantile(_CHANGED).item(), likeliest[seen].quantile(_SURE).item() ** 2 / 2)
    return min(MOST, max(_LEAST, float(f"{share:.3g}")))


def _overtaking(softmax: NextToken, entries: CopyScores) -> tuple[Float[Tensor, "M"], Float[Tensor, "M"]]:
    """At each position: the weight above which another token is the most likely (1: never); the highest probability."""
    size = softmax.vocab_size
    stored = entries.ids[entries.row]
    counted = entries.visible & (stored >= 0) & (stored < size)
    stored, (_, best) = stored.clamp(0, size - 1), softmax.top_k(1)
    total = entries.log_mass()[:, None]
    likeliest = softmax.log_prob(best).exp()
    behind = likeliest - softmax.log_prob(stored).exp()
    ahead = (entries.log_mass_of(stored, size) - total).exp() - (entries.log_mass_of(best, size) - total).exp()
    weight = torch.where(counted & (ahead > 0), behind / (behind + ahead), 1.0)
    sees = counted.any(1)
    return weight.amin(1)[sees], likeliest[sees, 0]  # of the positions that see an entry


def closed_gate(share: float) -> float:
    """The logit of a gate that gives the softmax ``1 - share``, and the added distribution ``share``."""
    return math.log1p(-share) - math.log(share)


@torch.no_grad()
def nats_apart(softmax: NextToken, other: NextToken) -> float:
    """Mean divergence KL(``softmax`` || ``other``) over all positions, in nats."""
    total = 0.0
    for rows in torch.split(torch.arange(len(softmax), device=softmax.device), _ROWS):
        own, changed = softmax[rows].log_probs(), other[rows].log_probs()
        apart = own.exp() * (own - changed)
        total += float(apart.masked_fill(own == -torch.inf, 0.0).sum(dtype=torch.float64))
    return total / max(len(softmax), 1)
