"""Facts about a text that is longer than its model can see, in windows that overlap by half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nextword.distribution import NextToken
from nextword.inference.scoring.example_encoding import EncodedExample
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.remembered_windows import looks_beyond_windows, remembered_windows
from nextword.inference.scoring.target_likelihood import distribution_at_targets
from nextword.inference.scoring.token_facts import TokenFacts, joined_facts, token_facts
from nextword.inference.scoring.windows import windows_after, windows_from_start


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
    have at least the other half before them, as ``nextword.inference.scoring.windows`` has it.

    Args:
        opened: The model, as in evaluation and without gradient.
        encoded: Context and target.
        inputs: Further inputs of the model.
        window: Tokens that it sees at once; None: all.
        **numbers: ``candidates`` and ``places``, as of ``token_facts``.
    """
    found: list[TokenFacts] = []
    texts: dict[str, Any] = {}
    for begin, distribution, targets in _in_windows(opened.model, encoded, inputs, window):
        texts = distribution.places_in()
        facts = token_facts(distribution, targets, **numbers)
        # counted from the beginning of the text and not of the window; those of other texts are where they were
        places = {name: of.moved(begin) if texts[name] == "text" else of for name, of in facts.places.items()}
        found.append(replace(facts, places=places))
    return joined_facts(found), texts


def _in_windows(
    model: Any, encoded: EncodedExample, inputs: Mapping[str, Any], window: int | None
) -> Iterator[tuple[int, NextToken, Tensor]]:
    """Where each window begins, its distribution at the targets, and these."""
    stream, first = [*encoded.context, *encoded.target], len(encoded.context)
    if window is None:
        yield 0, *distribution_at_targets(model, [encoded], inputs)
    elif looks_beyond_windows(model):
        spans = windows_from_start(first, len(stream), window, max(1, window // 2))
        for some in remembered_windows(model, torch.tensor(stream), spans, 1, first=first):
            if len(some.targets):
                yield some.begin, some.distribution, some.targets
    else:
        for span in windows_after(first, len(stream), window, max(1, window // 2)):
            a, b, c = span.begin, span.targets.start, span.targets.stop
            part = replace(encoded, context=stream[a:b], target=stream[b:c])
            yield a, *distribution_at_targets(model, [part], inputs)
