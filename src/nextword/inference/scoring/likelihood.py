"""Log-probabilities of given tokens, the one way to ask for them.

    texts -> spans: a target after its context, or what each window of a text reads
    spans -> batches -> the distribution before every target token -> an answer for each span

Scores and pages of tokens, tasks, calibration and a server's ``echo`` ask here, each with a question of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution import NextToken
from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.functional.padding import IGNORED_LABEL, padded, stacked
from nextword.inference.scoring.long_text import ScoringWindow, TargetSpan, WindowMemory, WindowSpan, window_spans
from nextword.inference.scoring.opened_model import OpenedModel, Progress, batches, progress_within
from nextword.model.forward.output_layer import weights_at_fault
from nextword.settings.setting_names import named

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

Answer = TypeVar("Answer")

Inputs = Callable[[Sequence[Any]], Mapping[str, Any]]
"""Further inputs of a model for a batch of spans, such as an auxiliary text for each."""

Reader = Callable[[Sequence[Any]], tuple[NextToken, Int[Tensor, "N"], Sequence[Any]]]
"""Given some spans, the distribution before each of their N target tokens, these tokens, and those spans that have any;
the model is as in evaluation."""

Question = Callable[[NextToken, Int[Tensor, "N"], Sequence[Any]], Sequence[Answer]]
"""Given what a reader gave, an answer for each span."""

BATCHES_SORTED = 32
"""So many batches of windows are sorted by length together, so that little is padded and the order can be restored."""


@dataclass(frozen=True)
class TokenPair(TargetSpan):
    """A target, and what a model reads before it.

    Attributes:
        context: At least one token: a start token, a prompt; for an encoder-decoder model the source.
        target: The tokens that are scored, or that another text is written in place of.
        target_bytes: UTF-8 bytes of the text that they cover.
    """

    target_bytes: int


def no_inputs(pairs: Sequence[Any]) -> Mapping[str, Any]:
    """Likelihoods of a model that reads nothing but the pairs."""
    return {}


def target_log_probs(
    model: NextWordModel,
    pairs: Sequence[TokenPair],
    batch_size: int,
    inputs: Inputs = no_inputs,
    progress: Progress | None = None,
) -> list[Float[Tensor, "T"]]:
    """Log-probability of each token of each target after all right ones before it, in float64 on the CPU.

    The model is as in evaluation, and reads ``batch_size`` pairs at a time.
    """
    return list(_answers(_reader(model, inputs), pairs, batch_size, span_log_probs, progress))


def text_answers(
    model: NextWordModel,
    texts: Sequence[Any],
    scoring_window: ScoringWindow,
    batch_size: int,
    question: Question[Answer],
    inputs: Inputs = no_inputs,
    progress: Progress | None = None,
) -> Iterator[list[Answer]]:
    """The answers about each text, in order, as soon as they are complete: one for each window that has targets.

    The model is as in evaluation and without gradient, and reads ``batch_size`` windows at a time, also of several
    texts together; but where its head looks back further than a window, text by text, each with a memory of its own. A
    text has a ``context`` and a ``target``, and an ``example`` where the model has further ``inputs``.
    """
    if not texts:
        return
    remembers = scoring_window.long is not None
    total, done = sum(len(text.target) for text in texts), 0
    for together in [[text] for text in texts] if remembers else [texts]:
        size = sum(len(text.target) for text in together)
        share, done = progress_within(progress, done / total, (done + size) / total), done + size
        read: Reader = WindowMemory(model) if remembers else _reader(model, inputs)
        spans = (span for text in together for span in text_spans(text, scoring_window))
        found = _in_pools(read, spans, batch_size, question, size, share)
        for text in together:
            answers: list[Answer] = []
            missing = len(text.target)
            while missing:
                span, answer = next(found)
                answers.append(answer)
                missing -= len(span.target)
            yield answers


def text_spans(text: Any, scoring_window: ScoringWindow) -> Iterator[WindowSpan]:
    """What each window of a text reads, in order."""
    ids, first = np.concatenate([text.context, text.target]), len(text.context)
    example = getattr(text, "example", None)
    cut = scoring_window.windows(first, len(ids))
    if not cut:
        return iter([WindowSpan(ids[:first].tolist(), ids[first:].tolist(), 0, example)])
    return window_spans(ids, cut, first, example)


def _in_pools(
    read: Reader,
    spans: Iterator[WindowSpan],
    batch_size: int,
    question: Question[Answer],
    size: int,
    progress: Progress,
) -> Iterator[tuple[WindowSpan, Answer]]:
    # each span that has targets, in order, with its answer; all together have ``size`` of them
    done = 0
    while pool := list(islice(spans, BATCHES_SORTED * batch_size)):
        lengths = [len(span.context) + len(span.target) for span in pool]
        # windows of one text are of one length, and stay in order
        by_length = sorted(range(len(pool)), key=lengths.__getitem__, reverse=True)
        before, done = done, done + sum(len(span.target) for span in pool)
        share = progress_within(progress, before / size, done / size)
        found = _answers(read, [pool[place] for place in by_length], batch_size, question, share)
        placed = dict(zip([place for place in by_length if pool[place].target], found, strict=True))
        yield from ((pool[place], placed[place]) for place in sorted(placed))


def _answers(
    read: Reader, spans: Sequence[TargetSpan], batch_size: int, question: Question[Answer], progress: Progress | None
) -> Iterator[Answer]:
    for part in batches(spans, batch_size, progress):
        distribution, targets, asked = read(part)
        if asked:
            yield from question(distribution, targets, asked)


def span_log_probs(
    distribution: NextToken, ids: Int[Tensor, "N"], spans: Sequence[TargetSpan]
) -> Sequence[Float[Tensor, "_T"]]:
    """The question for the log-probability of each token, in float64 on the CPU."""
    found = distribution.log_prob(ids[:, None])[:, 0].double().cpu()
    return torch.split(found, [len(span.target) for span in spans])


def expect_numbers(opened: OpenedModel, text: str, log_probs: Float[np.ndarray, "T"]) -> None:
    """Raises ValueError where a log-probability is NaN, with the weights that are NaN."""
    wrong = np.flatnonzero(np.isnan(log_probs))
    if not len(wrong):
        return
    token = f"token {wrong[0] + 1} of {text}"
    raise ValueError(f"{opened.name}: the log-probability of {token} is nan: {why_nan(opened.model)}")


def why_nan(model: NextWordModel) -> str:
    """Why a model's answers are NaN, and what to do."""
    return weights_at_fault(model) or f"all weights are finite, so it overflows; try {named('dtype', 'float32')}"


def likelihood_sum(pairs: Sequence[TokenPair], nats: Iterable[float]) -> LikelihoodSum:
    """The sum of targets, each of which is one block of the interval; ``nats`` has the sum of each target."""
    total = LikelihoodSum()
    for pair, value in zip(pairs, nats, strict=True):
        total.add(value, len(pair.target), pair.target_bytes)
    return total


# -- A batch of spans before the model.


def _reader(model: NextWordModel, inputs: Inputs) -> Reader:
    return lambda spans: (*distribution_at_targets(model, spans, inputs(spans)), spans)


def distribution_at_targets(
    model: NextWordModel, pairs: Sequence[TargetSpan], inputs: Mapping[str, Any] | None = None
) -> tuple[NextToken, Int[Tensor, "N"]]:
    """Distribution before every target token, N of all pairs one after the other, and these tokens."""
    ask = _after_sources if model.config.is_encoder_decoder else _after_prompts
    return ask(model, pairs, inputs or {})


def fill_id(model: NextWordModel) -> int:
    """A token for positions that a mask leaves out."""
    pad = model.generation_config.pad_token_id
    return 0 if pad is None else int(pad)


def _after_prompts(
    model: NextWordModel, pairs: Sequence[TargetSpan], inputs: Mapping[str, Any]
) -> tuple[NextToken, Int[Tensor, "N"]]:
    rows = [[*pair.context, *pair.target] for pair in pairs]
    ids, mask = (tensor.to(model.device) for tensor in padded(rows, fill_id(model)))
    before, after, is_real = ids[:, :-1], ids[:, 1:], mask[:, 1:].bool()
    begins = torch.tensor([len(pair.context) - 1 for pair in pairs], device=model.device)
    scored = is_real & (torch.arange(before.shape[1], device=model.device)[None, :] >= begins[:, None])
    distribution = model.distribution(before, attention_mask=mask[:, :-1], positions=scored, **inputs)
    return distribution, after[scored]


def _after_sources(
    model: NextWordModel, pairs: Sequence[TargetSpan], inputs: Mapping[str, Any]
) -> tuple[NextToken, Int[Tensor, "N"]]:
    ids, mask = (tensor.to(model.device) for tensor in padded([pair.context for pair in pairs], fill_id(model)))
    labels = stacked([pair.target for pair in pairs], IGNORED_LABEL).to(model.device)
    scored = labels != IGNORED_LABEL
    decoder = model.prepare_decoder_input_ids_from_labels(labels)
    distribution = model.distribution(ids, attention_mask=mask, decoder_input_ids=decoder, positions=scored, **inputs)
    return distribution, labels[scored]


# -- The next-token distribution of a model after each of several rows of ids.


def ask(
    model: NextWordModel, rows: Sequence[Sequence[int]], pad: int, mode: str = "joint", everywhere: bool = False
) -> tuple[Any, Bool[Tensor, "B T"]]:
    """Distribution after each row of ids (or at every real position), and the chosen positions."""
    ids, mask = padded(rows, pad)  # on the right; what fills has no effect, because the mask leaves it out
    positions = mask.bool() if everywhere else last_positions(mask)
    on = model.device
    return model.distribution(ids.to(on), attention_mask=mask.to(on), positions=positions.to(on), mode=mode), positions


def last_positions(mask: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """True at each row's last real token."""
    return torch.arange(mask.shape[1])[None, :] == mask.sum(dim=1, keepdim=True) - 1
