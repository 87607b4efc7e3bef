"""Properties of a scorer that can be asked in several ways: they tell one story, and every token has a probability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from nextword.checking.audit.scorer_reading import CALL, OBSERVED, ScorerReader, lacks, ways_of
from nextword.checking.property import Case, Deviation, Property, compared


def _steps(reader: Any, case: Case) -> Iterator[Deviation]:
    base = reader.base
    if base is reader:
        return
    texts = [[*text, text[0]] for text in reader.texts(case.batch)]
    found, expected = _told(reader, texts), _told(base, texts)
    if reader.mode == OBSERVED:
        targets = torch.cat([torch.tensor(text[1:]) for text in texts])
        expected = expected.gather(1, targets[:, None]) if expected.shape[1] > 1 else expected
    yield compared(f"{reader.name} against {base.name}", found, expected, case.batch)


def _told(reader: ScorerReader, texts: list[list[int]]) -> torch.Tensor:
    return torch.cat([answer[1:] for answer in reader.asked(texts)])


def _totals(reader: Any, case: Case) -> Iterator[Deviation]:
    if reader.mode == CALL:
        return  # says nothing of a first token
    texts = reader.texts(case.batch)
    totals = [float(total) for total in reader.model.text_totals(texts)]
    for number, (text, total, answer) in enumerate(zip(texts, totals, reader.asked(texts), strict=True)):
        ids = torch.tensor(text)[:, None]
        told = answer if reader.mode == OBSERVED else answer.gather(1, ids)
        steps = float(told[:, 0].double().nansum())
        off = abs(total - steps) / max(1.0, abs(steps))
        yield Deviation("", off, f"text {number} of {len(text)} tokens counts {total:.6g}, its tokens {steps:.6g}")


def _unscored(reader: Any, case: Case) -> Iterator[Deviation]:
    log_probs = reader.log_probs(case.batch)
    nothing = log_probs == -torch.inf
    at = ""
    if nothing.any():
        where, token = (int(index) for index in nothing.nonzero()[0])
        row, place = int(case.batch.row[where]), int(case.batch.place[where])
        name = f"token {token}" if log_probs.shape[1] > 1 else f"token {int(case.batch.ids[row, place])} or the next"
        at = f"after {place + 1} tokens of text {row}, {name} has probability 0; {int(nothing.sum())} more such"
    yield Deviation("", torch.inf if nothing.any() else 0.0, at)


def _one_way(scorer: Any) -> str:
    return "" if len(ways_of(scorer)) > 1 else "the scorer can be asked in one way only"


STEPS = Property(
    name="score and steps",
    fault="score-is-not-its-steps",
    meaning=f"whole texts are scored with what {CALL} says step by step",
    look_at="Look at what is done to scores of whole texts only: temperature, smoothing, windows, a look ahead.",
    measure=_steps,
    applies=_one_way,
    reruns=True,
)
TOTALS = Property(
    name="totals",
    fault="total",
    meaning="the total of a text is the sum over its tokens, each counted once",
    look_at="Look at windows that overlap, at padding, and at what the sum is divided by.",
    measure=_totals,
    applies=lacks("text_totals"),
)
UNSCORED = Property(
    name="all tokens",
    fault="unscored-token",
    meaning="every token has some probability after every prefix",
    look_at="Look for words without a count, truncation (top-k, top-p) left on, and a hard argmax.",
    measure=_unscored,
)
