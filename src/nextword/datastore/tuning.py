"""Weight and temperature of what is retrieved, tuned on validation text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from nextword.heads.knn import KnnConfig
from nextword.model.training_modes import measuring
from nextword.scoring.opened_model import AnyModel, OpenedModel
from nextword.scoring.prompt_encoding import start_id
from nextword.scoring.text_tokens import token_ids
from nextword.scoring.windows import windows_after

_STEPS = 200
_HALF = 0.5

TEMPERATURES = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Those that ``tuned_retrieval`` tries."""


def tuned_weight(model: AnyModel, text: str, *, window: int = 512) -> float:
    """The share of what is retrieved under which a text is most likely; ``configure_head(weight=...)`` takes it.

    Args:
        model: With the head ``knn`` and ``mix=fixed``; its own weight does not matter.
        text: Validation text, which is not in the store.
        window: Tokens that the model sees at once.

    Raises:
        ValueError: The model has another head, or the text no tokens.
    """
    opened = _opened(model)
    own = opened.model.next_word_head.config.temperature
    below, found = _of_texts(opened, [text], window, [own])
    return best_weight(below, found[:, 0])


def tuned_retrieval(model: AnyModel, texts: Sequence[str], *, window: int = 512) -> dict[str, float]:
    """The temperature and the weight under which texts are most likely; ``configure_head`` takes them.

    For each of ``TEMPERATURES`` the best weight is found; the pair of the highest likelihood is returned.

    Args:
        model: With the head ``knn`` and ``mix=fixed``; its own temperature and weight do not matter.
        texts: Validation texts, which are not in the store; each is read by itself.
        window: Tokens that the model sees at once.

    Raises:
        ValueError: The model has another head, or no text has a token.
    """
    below, found = _of_texts(_opened(model), texts, window, TEMPERATURES)
    weights = [best_weight(below, column) for column in found.T]
    likelihoods = [_log_likelihood(below, *one) for one in zip(found.T, weights, strict=True)]
    best = int(np.argmax(likelihoods))
    return {"temperature": TEMPERATURES[best], "weight": weights[best]}


def _opened(model: AnyModel) -> OpenedModel:
    opened = OpenedModel.of(model)
    config = opened.model.next_word_head.config
    if not isinstance(config, KnnConfig) or config.mix != "fixed":
        raise ValueError(f"model: must have the head knn with mix=fixed ('{config.head}' given); attach it first")
    return opened


def _of_texts(
    opened: OpenedModel, texts: Sequence[str], window: int, temperatures: Sequence[float]
) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N K"]]:
    """As ``_of_both``, of all tokens of the texts."""
    rows = [[start_id(opened.tokenizer), *token_ids(opened.tokenizer, text)] for text in texts]
    rows = [ids for ids in rows if len(ids) > 1]
    if not rows:
        raise ValueError("text: must have at least one token (none given)")
    config = opened.model.next_word_head.config
    opened.model.configure_head(weight=_HALF, temperature=1.0)
    try:
        parts = [_of_both(opened, ids, min(window, opened.longest or window), temperatures) for ids in rows]
    finally:
        opened.model.configure_head(weight=config.weight, temperature=config.temperature)
    below, found = zip(*parts, strict=True)
    return np.concatenate(below), np.concatenate(found)


def _of_both(
    opened: OpenedModel, ids: list[int], window: int, temperatures: Sequence[float]
) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N K"]]:
    """Probability of each token under the head below, and under what is retrieved with each of K temperatures.

    NaN where nothing is retrieved. The search is the same for all temperatures, and made once.
    """
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    with measuring(opened.model):
        for one in windows_after(1, len(ids), window, window):
            inputs = torch.tensor([ids[one.begin : one.begin + one.size]], device=opened.model.device)
            targets = torch.tensor(ids[one.begin + 1 : one.begin + one.size + 1], device=inputs.device)
            distribution = opened.model.distribution(inputs)[slice(one.size - one.scored, one.size)]
            asked = targets[-one.scored :, None]
            below = distribution.base.log_prob(asked)[:, 0].exp()
            entries = distribution.attention
            hit, scores = entries.ids == asked, entries.scores.masked_fill(~entries.visible, -torch.inf)
            shares = [((scores / temperature).softmax(1) * hit).sum(1) for temperature in temperatures]
            below = torch.where(entries.visible.any(1), below, torch.nan)
            parts.append((below.double().cpu().numpy(), torch.stack(shares, 1).double().cpu().numpy()))
    both = zip(*parts, strict=True)
    return np.concatenate(next(both)), np.concatenate(next(both))


def best_weight(below: Float[np.ndarray, "N"], found: Float[np.ndarray, "N"]) -> float:
    """The weight that makes ``sum log((1 - w) below + w found)`` largest, by expectation maximisation.

    >>> round(best_weight(np.array([0.1, 0.4]), np.array([0.3, 0.0])), 3)
    0.25
    """
    below, found = _where_found(below, found)
    if not len(below):
        return 0.0
    weight = _HALF
    for _ in range(_STEPS):
        part = weight * found
        weight = float((part / (part + (1 - weight) * below)).mean())
    return weight


def _log_likelihood(below: Float[np.ndarray, "N"], found: Float[np.ndarray, "N"], weight: float) -> float:
    below, found = _where_found(below, found)
    return float(np.log((1 - weight) * below + weight * found).sum())


def _where_found(below: Float[np.ndarray, "N"], found: Float[np.ndarray, "N"]) -> tuple[np.ndarray, np.ndarray]:
    """Of the positions at which something was found, and the token is possible."""
    counted = ~np.isnan(below) & (below + found > 0)
    return below[counted], found[counted]
