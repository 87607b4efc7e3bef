"""What a model says of every token of several texts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nextword.inference.scoring.example_encoding import auxiliary_inputs
from nextword.inference.scoring.long_text import looks_beyond_windows, remembered_windows
from nextword.inference.scoring.measurement.scored_texts import ScoredSpan, ScoredText, ScoringWindow, scored_spans
from nextword.inference.scoring.opened_model import OpenedModel, Progress
from nextword.inference.scoring.target_likelihood import distribution_at_targets
from nextword.inference.scoring.token_facts import TokenFacts, TopPositions, joined_facts, token_facts
from nextword.model.forward.output_layer import weights_at_fault
from nextword.settings.setting_names import named

Answer = TypeVar("Answer")

BATCHES_SORTED = 32
"""So many batches of windows are sorted by length together, so that little is padded and the order can be restored."""


@dataclass(frozen=True)
class TokenQuestion(Generic[Answer]):
    """What is asked of a distribution.

    Attributes:
        ask: Given the distribution at N positions, the N tokens that follow and the windows that score these, an answer
            for each window.
        join: Puts the answers of all windows of one text together.
    """

    ask: Callable[[Any, Int[Tensor, "N"], Sequence[ScoredSpan]], Sequence[Answer]]
    join: Callable[[Sequence[Answer]], Answer]


def _log_probs(distribution: Any, ids: Int[Tensor, "N"], parts: Sequence[ScoredSpan]) -> list[Float[np.ndarray, "_T"]]:
    found = distribution.log_prob(ids[:, None])[:, 0].double().cpu().numpy()
    return np.split(found, _token_ends(parts)[:-1])


LOG_PROBS: TokenQuestion[Float[np.ndarray, "T"]] = TokenQuestion(_log_probs, np.concatenate)
"""The log-probability of each token, in float64."""


def _token_ends(parts: Sequence[ScoredSpan]) -> Int[np.ndarray, "B"]:
    return np.cumsum([len(part.target) for part in parts])


def answers(
    opened: OpenedModel,
    texts: Sequence[ScoredText],
    scoring_window: ScoringWindow,
    batch_size: int,
    question: TokenQuestion[Answer],
    progress: Progress | None = None,
) -> Iterator[Answer]:
    """The answer for each text, in order, as soon as it is complete.

    The model is as in evaluation and without gradient, and reads ``batch_size`` windows at a time.
    """
    if looks_beyond_windows(opened.model):
        yield from _remembered(opened, texts, scoring_window, batch_size, question, progress)
        return
    inputs = auxiliary_inputs(opened)
    total, done = sum(len(text.target) for text in texts), 0
    in_order = ((number, part) for number, text in enumerate(texts) for part in scored_spans(text, scoring_window))
    parts: list[Answer] = []
    missing = [len(text.target) for text in texts]
    while pool := list(islice(in_order, BATCHES_SORTED * batch_size)):
        found: dict[int, Answer] = {}
        lengths = [len(part.context) + len(part.target) for _, part in pool]
        by_length = sorted(range(len(pool)), key=lengths.__getitem__, reverse=True)
        for begin in range(0, len(pool), batch_size):
            positions = by_length[begin : begin + batch_size]
            batch = [pool[position][1] for position in positions]
            distribution, targets = distribution_at_targets(opened.model, batch, inputs(batch))
            found.update(zip(positions, question.ask(distribution, targets, batch), strict=True))
            done += sum(len(part.target) for part in batch)
            if progress is not None:
                progress(done / total)
        for position, (number, part) in enumerate(pool):
            parts.append(found.pop(position))
            missing[number] -= len(part.target)
            if not missing[number]:
                yield question.join(parts)
                parts = []


def _remembered(
    opened: OpenedModel,
    texts: Sequence[ScoredText],
    scoring_window: ScoringWindow,
    batch_size: int,
    question: TokenQuestion[Answer],
    progress: Progress | None,
) -> Iterator[Answer]:
    """The same where a head looks back further than a window: text by text, each with a memory of its own."""
    for number, text in enumerate(texts):
        ids, first = np.concatenate([text.context, text.target]), len(text.context)
        spans = scoring_window.windows(first, len(ids))
        windows = remembered_windows(opened.model, torch.from_numpy(ids), spans, batch_size, first=first)
        parts: list[Answer] = []
        done = first
        for some in windows:
            if not len(some.targets):
                continue  # of the prompt alone
            target = ids[done : done + len(some.targets)]
            done += len(target)
            span = ScoredSpan([], target.tolist(), 0, text.example, some.begin - first + 1)
            parts += question.ask(some.distribution, some.targets, [span])
        yield question.join(parts)
        if progress is not None:
            progress((number + 1) / len(texts))


def expect_numbers(opened: OpenedModel, text: ScoredText, log_probs: Float[np.ndarray, "T"]) -> None:
    """Raises ValueError where a log-probability is none, with the weights that are no numbers."""
    wrong = np.flatnonzero(np.isnan(log_probs))
    if not len(wrong):
        return
    why = weights_at_fault(opened.model) or f"all weights are finite, so it overflows; try {named('dtype', 'float32')}"
    raise ValueError(f"{opened.name}: the log-probability of token {wrong[0] + 1} of {text.example.id} is nan: {why}")


# -- What a model says of every token, as lines of JSON: one object a token.

DIGITS = 6
"""Behind the point."""


@dataclass(frozen=True, eq=False)
class TextFacts:
    """What was said of the T tokens of a text; positions count from 1; in "text" what stands before it has 0 and less.

    Attributes:
        texts: By component, which text its positions are in: "text" (with its prompt), "source", or the documents of a
            "store".
    """

    facts: TokenFacts
    texts: dict[str, str]


def facts_question(positions: int) -> TokenQuestion[TextFacts]:
    """Log-probability, rank, entropy, shares, and so many positions of each token."""
    return TokenQuestion(partial(_ask, positions=positions), _joined)


def token_lines(
    model: str,
    text: ScoredText,
    facts: TextFacts,
    groups: Mapping[str, Sequence[str]],
    label: Callable[[int], str],
) -> Iterator[bytes]:
    """The lines of one text; ``groups`` has, by breakdown, the group of each token, and ``label`` shows a token."""
    said = facts.facts
    for row, token in enumerate(text.target.tolist()):
        line: dict[str, Any] = {
            "model": model,
            "text": text.example.id,
            "position": row + 1,
            "id": token,
            "token": label(token),
            "log_prob": _number(said.log_prob[row]),
            "rank": int(said.rank[row]),
            "entropy": _number(said.entropy[row]),
            "shares": {name: _number(share[row]) for name, share in said.shares.items()},
            "groups": {key: names[row] for key, names in groups.items()},
        }
        if said.positions:
            line["positions"] = {
                name: list(_places(text, facts.texts[name], of, row, label)) for name, of in said.positions.items()
            }
        yield json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _places(
    text: ScoredText, read: str, positions: TopPositions, row: int, label: Callable[[int], str]
) -> Iterator[dict[str, Any]]:
    for k, (position, share) in enumerate(zip(positions.at[row].tolist(), positions.share[row].tolist(), strict=True)):
        if share > 0:
            token = None if positions.documents is not None else text.token_at(read, position)
            shown: dict[str, Any] = {} if token is None else {"token": label(token)}
            if positions.documents is not None:
                shown = {"document": int(positions.documents[row, k])}
            yield {"in": read, "position": position, **shown, "share": _number(share)}


def _number(value: float) -> float | None:
    """What JSON can write; None for the logarithm of 0."""
    return round(float(value), DIGITS) if math.isfinite(value) else None


def _ask(distribution: Any, ids: Int[Tensor, "N"], parts: Sequence[ScoredSpan], *, positions: int) -> list[TextFacts]:
    facts, texts, found = token_facts(distribution, ids, positions=positions), distribution.positions_in(), []
    for end, part in zip(_token_ends(parts), parts, strict=True):
        said = facts[end - len(part.target) : end]
        # counted from the beginning of the text and not of the window
        moved = {name: of.moved(part.begin if texts[name] == "text" else 1) for name, of in said.positions.items()}
        found.append(TextFacts(replace(said, positions=moved), texts))
    return found


def _joined(parts: Sequence[TextFacts]) -> TextFacts:
    return TextFacts(joined_facts([part.facts for part in parts]), parts[0].texts)
