"""Two passes over all texts for one model: the first counts tokens, the second scores them. Both can be resumed."""

from __future__ import annotations

import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int

from nextword.functional.frequency.counts import TokenCounts, tokenizer_fingerprint
from nextword.inference.scoring.breakdowns import Breakdown, CopiedSpans, FrequencyBands, NewAndRepeated, TextPosition
from nextword.inference.scoring.example_encoding import auxiliary_inputs
from nextword.inference.scoring.likelihood import Question, expect_numbers, span_log_probs, text_answers
from nextword.inference.scoring.measurement.block_sums import BlockSums, Units
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.score_checkpoint import Chunk, ModelState, chunks
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import ScoredText, scored_text, scoring_window_of
from nextword.inference.scoring.opened_model import OpenedModel, Progress
from nextword.inference.scoring.token_facts import TextFacts, TopPositions, span_facts
from nextword.model.training_modes import inference_mode_of
from nextword.runtime.pretrained import token_label
from nextword.runtime.workers import Workers, WorkerTask

Answer = TypeVar("Answer")

Watch = Callable[[str, float], None]
"""Function that receives a model's name and the finished share of the texts."""

Tell = Callable[[float], None]
"""Function that receives how many bytes of a chunk of texts are finished."""


@dataclass
class ModelPasses:
    """Runs the two passes of one model over the texts ``given``.

    Attributes:
        asked: The worker processes (or this process), which have opened the model.
        keep: Function that receives the new state after each chunk of texts, to save it.
        progress: Function that receives the name of the pass and the finished share of the texts.
    """

    asked: Workers[OpenedModel]
    name: str
    given: GivenTexts
    settings: ScoreSettings
    keep: Callable[[ModelState], None]
    progress: Watch | None = None

    def breakdowns(self, state: ModelState) -> tuple[ModelState, tuple[Breakdown, ...]]:
        """Counts the tokens, unless ``settings.counts`` is a file. Returns the new state, and ways to group tokens."""
        if self.settings.counts is not None:
            counts = TokenCounts.load(self.settings.counts, "counts")
            frequency = FrequencyBands(counts.counts, counts.source)
        else:
            ask = partial(_count_tokens, self.settings)
            for found in self._answers(
                f"{self.name}: token counts", state.counted, lambda chunk, _: partial(ask, chunk)
            ):
                state = state.with_counts(*found)
                self.keep(state)
            frequency = FrequencyBands(state.counts, "the scored texts")
        return state, (NewAndRepeated(), CopiedSpans(self.settings.span), frequency, TextPosition())

    def scored(self, state: ModelState, breakdowns: tuple[Breakdown, ...], file: BinaryIO | None) -> ModelState:
        """Scores every token once, and returns the state with all sums. ``file``, if given, gets a line per token."""
        units = Units.of(self.given)
        if state.sums is None:
            state = replace(state, sums=BlockSums.none(units.count, breakdowns))
        # if this process computes, progress is also reported within a chunk
        here = self.progress is not None and self.asked.in_this_process

        def task(chunk: Chunk, tell: Tell) -> partial[tuple[BlockSums, list[bytes]]]:
            told = (lambda share: tell(share * chunk.bytes)) if here else None
            return partial(_score_texts, self.settings, chunk, units, breakdowns, file is not None, told)

        for sums, lines in self._answers(self.name, state.scored, task):
            state = state.with_sums(sums)
            self.keep(state)
            if file is not None:
                file.writelines(lines)
        return state

    def _answers(
        self, stage: str, skipped: int, task: Callable[[Chunk, Tell], WorkerTask[OpenedModel, Answer]]
    ) -> Iterator[Answer]:
        """Yields the answers for all chunks after the first ``skipped`` chunks, and reports progress after each."""
        done, waiting = 0, deque[int]()

        def tell(more: float = 0.0) -> None:
            if self.progress is not None:
                self.progress(stage, (done + more) / self.given.bytes)

        def tasks() -> Iterator[WorkerTask[OpenedModel, Answer]]:
            nonlocal done
            for chunk in chunks(self.given.examples):
                if chunk.number < skipped:
                    done += chunk.bytes
                    tell()
                else:
                    waiting.append(chunk.bytes)
                    yield task(chunk, tell)

        for answer in self.asked.answers(tasks()):
            yield answer
            done += waiting.popleft()
            tell()


# -- What a process does with its opened model: describe it, count tokens, score texts.
#
# Such a process gets one of these functions with all arguments except the last. The last argument is the model.


def describe(settings: ScoreSettings, opened: OpenedModel) -> tuple[dict[str, Any], str]:
    """Returns facts about a model, as attributes of ``ModelScore``, and a digest that does not depend on its folder.

    Raises ValueError if the settings do not fit the model.
    """
    model, scoring_window = opened.model, scoring_window_of(opened, settings)
    if settings.counts is not None:
        TokenCounts.load(settings.counts, "counts").expect_tokenizer(opened.tokenizer, "counts")
    about = {
        "name": opened.name,
        "location": str(model.name_or_path or model.backbone.name_or_path),
        **opened.parts,
        "reads": (*["source"] * opened.has_encoder, *["auxiliary"] * (opened.auxiliary_tokenizer is not None)),
        "window": scoring_window.window,
        "stride": scoring_window.stride,
    }
    # sums of weights are computed quickly, and every training step changes some of them
    sums = [
        (name, str(weight.dtype), float(weight.detach().sum(dtype=torch.float64)))
        for name, weight in model.state_dict().items()
    ]
    told_by = {"tokenizer": tokenizer_fingerprint(opened.tokenizer), "weights": _digest(sums)}
    return about, _digest({**about, "location": "", **told_by})


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _count_tokens(
    settings: ScoreSettings, chunk: Chunk, opened: OpenedModel
) -> tuple[Int[np.ndarray, "K"], Int[np.ndarray, "K"]]:
    """The target tokens and their counts. Special tokens are not counted."""
    texts = _texts(opened, chunk, settings)
    return np.unique(np.concatenate([text.target[~text.is_special] for text in texts]), return_counts=True)


def _score_texts(
    settings: ScoreSettings,
    chunk: Chunk,
    units: Units,
    breakdowns: tuple[Breakdown, ...],
    each_token: bool,
    told: Progress | None,
    opened: OpenedModel,
) -> tuple[BlockSums, list[bytes]]:
    """The sums of a chunk. With ``each_token`` also the scores of each token, as lines of a file."""
    texts, scoring_window = _texts(opened, chunk, settings), scoring_window_of(opened, settings)
    labels = cache(partial(token_label, opened.tokenizer))
    lines: list[bytes] = []
    found: list[Float[np.ndarray, "T"]] = []
    question: Question[Any] = partial(span_facts, positions=settings.positions) if each_token else span_log_probs
    with inference_mode_of(opened.model):
        inputs = auxiliary_inputs(opened)
        asked = text_answers(opened.model, texts, scoring_window, settings.batch_size, question, inputs, told)
        for text, parts in zip(texts, asked, strict=True):
            said = TextFacts.joined(parts) if each_token else None
            found.append(torch.cat(parts).numpy() if said is None else said.facts.log_prob)
            expect_numbers(opened, str(text.example.id), found[-1])
            if said is not None:
                groups = {one.key: [one.names[code] for code in one.codes(text)] for one in breakdowns}
                lines += token_lines(opened.name, text, said, groups, labels)
    unit = np.concatenate([units.of_tokens(number, text) for number, text in enumerate(texts, chunk.first)])
    return BlockSums.of(texts, found, unit, breakdowns), lines


def _texts(opened: OpenedModel, chunk: Chunk, settings: ScoreSettings) -> list[ScoredText]:
    scoring_window = scoring_window_of(opened, settings)
    return [scored_text(opened, example, scoring_window) for example in chunk.examples]


# -- The scores of every token as lines of JSON, with one object per token.

DIGITS = 6
"""Number of decimals of the values in the file of tokens."""


def token_lines(
    model: str,
    text: ScoredText,
    facts: TextFacts,
    groups: Mapping[str, Sequence[str]],
    label: Callable[[int], str],
) -> Iterator[bytes]:
    """Yields a line of JSON for each token of ``text``, for the file of tokens.

    ``groups`` maps the key of each breakdown to the group of each token. ``label`` returns a token id as text.
    """
    said, before = facts.facts, text.tokens_before
    # in the file, positions count from 1, at the first token of the text or of the source
    positions = {name: of.moved(1 - before * (facts.texts[name] == "text")) for name, of in said.positions.items()}
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
        if positions:
            line["positions"] = {
                name: list(_places(text, facts.texts[name], of, row, label)) for name, of in positions.items()
            }
        yield json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _places(
    text: ScoredText, read: str, positions: TopPositions, row: int, label: Callable[[int], str]
) -> Iterator[dict[str, Any]]:
    for place, (position, share) in enumerate(
        zip(positions.at[row].tolist(), positions.share[row].tolist(), strict=True)
    ):
        if share > 0:
            token = None if positions.documents is not None else text.token_at(read, position)
            shown: dict[str, Any] = {} if token is None else {"token": label(token)}
            if positions.documents is not None:
                shown = {"document": int(positions.documents[row, place])}
            yield {"in": read, "position": position, **shown, "share": _number(share)}


def _number(value: float) -> float | None:
    """A JSON number, or None for the logarithm of 0."""
    return round(float(value), DIGITS) if math.isfinite(value) else None
