"""Facts about a text that is longer than its model can see, in windows that overlap by half."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nextword.scoring.example_encoding import EncodedExample
from nextword.scoring.opened_model import OpenedModel
from nextword.scoring.target_likelihood import distribution_at_targets
from nextword.scoring.token_facts import TokenFacts, TopPlaces, TopTokens, token_facts
from nextword.scoring.windows import windows_after


def window_of(opened: OpenedModel, encoded: EncodedExample) -> int | None:
    """Tokens that the model sees at once of an example that is too long for it; None where it sees all of it.

    Raises:
        ValueError: The target of an encoder-decoder model, which is read as a whole, is too long.
    """
    limit = opened.longest
    if limit is None:
        return None
    read = len(encoded.target) + (0 if opened.has_encoder else len(encoded.context) - 1)
    if read <= limit:
        return None
    if opened.has_encoder:
        raise ValueError(
            f"text: must have at most {limit:,} tokens, which is what the decoder of '{opened.name}' sees ({read:,} "
            "given); trace a part of it"
        )
    return limit


def facts_in_windows(
    opened: OpenedModel,
    encoded: EncodedExample,
    inputs: Mapping[str, Any],
    window: int | None,
    **numbers: int,
) -> tuple[TokenFacts, dict[str, str]]:
    """What a model says about every target token, and of which text the places of each component are.

    Each token is predicted once. Every window but the first predicts as many tokens as half of it holds, so that these
    have at least the other half before them, as ``nextword.scoring.windows`` has it.

    Args:
        opened: The model, as in evaluation and without gradient.
        encoded: Context and target.
        inputs: Further inputs of the model.
        window: Tokens that it sees at once; None: all.
        **numbers: ``candidates`` and ``places``, as of ``token_facts``.
    """
    stream, first = [*encoded.context, *encoded.target], len(encoded.context)
    if window is None:
        parts = [(0, encoded)]
    else:
        spans = windows_after(first, len(stream), window, max(1, window // 2))
        cuts = [(span.begin, span.targets.start, span.targets.stop) for span in spans]
        parts = [(a, replace(encoded, context=stream[a:b], target=stream[b:c])) for a, b, c in cuts]
    found: list[TokenFacts] = []
    texts: dict[str, str] = {}
    for begin, part in parts:
        distribution, targets = distribution_at_targets(opened.model, [part], inputs)
        texts = distribution.places_in()
        facts = token_facts(distribution, targets, **numbers)
        found.append(replace(facts, places={name: _moved(of, begin, texts[name]) for name, of in facts.places.items()}))
    return _joined(found), texts


def _moved(places: TopPlaces, begin: int, text: str) -> TopPlaces:
    """Places counted from the beginning of the text and not of the window; those of a source are where they were."""
    return places if text != "text" else replace(places, at=np.where(places.at < 0, places.at, places.at + begin))


def _joined(parts: list[TokenFacts]) -> TokenFacts:
    if len(parts) == 1:
        return parts[0]
    best = [part.candidates for part in parts]
    return TokenFacts(
        log_prob=np.concatenate([part.log_prob for part in parts]),
        rank=np.concatenate([part.rank for part in parts]),
        entropy=np.concatenate([part.entropy for part in parts]),
        shares={name: np.concatenate([part.shares[name] for part in parts]) for name in parts[0].shares},
        candidates=TopTokens(
            ids=np.concatenate([one.ids for one in best]),
            log_prob=np.concatenate([one.log_prob for one in best]),
            shares={name: np.concatenate([one.shares[name] for one in best]) for name in best[0].shares},
        ),
        places={name: _all_places([part.places[name] for part in parts]) for name in parts[0].places},
    )


def _all_places(parts: list[TopPlaces]) -> TopPlaces:
    """Windows of different lengths may name different numbers of places."""
    most = max(part.at.shape[1] for part in parts)

    def wide(rows: np.ndarray, fill: float) -> np.ndarray:
        return np.pad(rows, ((0, 0), (0, most - rows.shape[1])), constant_values=fill)

    at, share = [wide(part.at, -1) for part in parts], [wide(part.share, 0) for part in parts]
    return TopPlaces(np.concatenate(at), np.concatenate(share))
