"""Starts that leave a pretrained model as good as it was: how much a head may add before anything is trained.

A model is shown random tokens once, when the head is attached. From its states and scores there, each head that adds
something to the softmax fits what it begins with: the temperature of a cache, its share, the bias of a gate.

A share ``w`` of anything costs at most ``-log(1 - w)`` nats per token, here 0.031, on any text. And it is so small that
the likeliest token stays what it was at 98 % of the positions that were shown.
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
"""Largest share of what is added."""

SHARPNESS = 16.0
"""Similarity of a state with itself, after the fitted temperature. The best temperature of an untrained cache is where
this is 10 to 16 (SmolLM2-135M: articles, stories, code); random tokens have somewhat longer states than text."""

_TOKENS = 512
_CHANGED = 0.02
"""Share of the positions at which another token may become the likeliest."""
_SURE = 0.9
"""Where the positions at which the model is surest begin."""
_LEAST = 1e-6
"""No gate starts so closed that it has no gradient in single precision."""
_ROWS = 32
"""Positions whose scores over the vocabulary are held at once."""


def probe_tokens(vocab_size: int) -> Int[Tensor, "M"]:
    """Random tokens, the same each time."""
    return torch.randint(vocab_size, (_TOKENS,), generator=torch.Generator().manual_seed(0))


def fitted_temperature(queries: Float[Tensor, "N D"], keys: Float[Tensor, "*rows D"]) -> float:
    """The temperature at which two states of usual length and the same direction are ``SHARPNESS`` alike.

    Similarity is the dot product over the square root of D.
    """
    lengths = [at_least_float32(states).norm(dim=-1).mean() for states in (queries, keys)]
    similarity = float(lengths[0] * lengths[1]) / math.sqrt(queries.shape[-1])
    return float(f"{similarity / SHARPNESS:.3g}") if similarity > 0 else 1.0


def unobtrusive_share(softmax: NextToken, added: CopyScores) -> float:
    """The largest share of stored tokens that leaves the likeliest token what it was nearly everywhere.

    At a position, entries with shares ``c`` make a token ``v`` overtake the likeliest one ``u`` from the weight ``w``
    on at which ``(1 - w) P(u) + w c(u) = (1 - w) P(v) + w c(v)``. The smallest such weight of each position is taken,
    and of these the one below which 2 % of them lie; at most ``MOST``, and half of ``P(u)²`` where the model is sure:
    one that knows nothing has a thousand tokens that are nearly the likeliest.
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
    """From which weight on another token is the likeliest (1: never), and how likely the likeliest is, by position."""
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
    """The logit of a gate that leaves this share to what is added."""
    return math.log1p(-share) - math.log(share)


@torch.no_grad()
def nats_apart(softmax: NextToken, other: NextToken) -> float:
    """Mean divergence of a distribution from the model's own: what it costs per token on text that the model writes."""
    total = 0.0
    for rows in torch.split(torch.arange(len(softmax), device=softmax.device), _ROWS):
        own, changed = softmax[rows].log_probs(), other[rows].log_probs()
        apart = own.exp() * (own - changed)
        total += float(apart.masked_fill(own == -torch.inf, 0.0).sum(dtype=torch.float64))
    return total / max(len(softmax), 1)
