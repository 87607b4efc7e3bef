"""Log-probabilities of given tokens, for ``nw.score``, ``nw.trace``, tasks, calibration and the server's ``echo``.

Each text is cut into spans: a target after its context, or the tokens of each window. The model reads the spans in
batches. From the distributions that predict the target tokens, a function (``Question``) computes an answer for each
span, such as the log-probabilities of its target tokens.
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
"""A function that makes further model inputs for a batch of spans, for instance from auxiliary texts."""

Reader = Callable[[Sequence[Any]], tuple[NextToken, Int[Tensor, "N"], Sequence[Any]]]
"""A function from spans to three results: the distribution before each of the N target tokens, these tokens, and the
spans with targets. The model is in evaluation mode."""

Question = Callable[[NextToken, Int[Tensor, "N"], Sequence[Any]], Sequence[Answer]]
"""A function from the three results of a reader to one answer per span."""

BATCHES_SORTED = 32
"""Number of batches of windows that are sorted by length together, to reduce padding."""


@dataclass(frozen=True)
class TokenPair(TargetSpan):
    """A target with its context.

    Attributes:
        context: At least one token: a start token and the prompt, or the source of an encoder-decoder model.
        target: Tokens to score. In generation the target is the reference.
        target_bytes: Number of UTF-8 bytes of the target's text.
    """

    target_bytes: int


def no_inputs(pairs: Sequence[Any]) -> Mapping[str, Any]:
    """Returns no further model inputs, for a model that reads only the tokens of ``pairs``."""
    return {}


def target_log_probs(
    model: NextWordModel,
    pairs: Sequence[TokenPair],
    batch_size: int,
    inputs: Inputs = no_inputs,
    progress: Progress | None = None,
) -> list[Float[Tensor, "T"]]:
    """Returns, for each of ``pairs``, the log-probabilities of its target tokens, in float64 on the CPU.

    Each log-probability is given the context and the earlier target tokens. The model must be in evaluation mode. A
    forward pass has at most ``batch_size`` pairs, for which ``inputs`` makes further arguments.
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
    """Yields, for each of ``texts`` in order, the answers of ``question``: one for each window that has targets.

    The caller sets evaluation mode and disables gradients. A forward pass has at most ``batch_size`` windows, which may
    be from several texts. If the head looks back further than a window, texts are processed one by one, each with its
    own head cache and without ``inputs``. A text has the attributes ``context`` and ``target``, and ``example`` if
    ``inputs`` reads it.
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
    """Returns the span of each window of ``text``, in order; a single span if ``scoring_window.window`` is None."""
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
    # yields each span that has targets, in order, with its answer; ``size`` is the number of all targets
    done = 0
    while pool := list(islice(spans, BATCHES_SORTED * batch_size)):
        lengths = [len(span.context) + len(span.target) for span in pool]
        # the sort keeps the order of spans with equal length, as the windows of one text have
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
    """A ``Question`` that returns the log-probabilities of each span's target tokens, in float64 on the CPU."""
    found = distribution.log_prob(ids[:, None])[:, 0].double().cpu()
    return torch.split(found, [len(span.target) for span in spans])


def expect_numbers(opened: OpenedModel, text: str, log_probs: Float[np.ndarray, "T"]) -> None:
    """Raises ValueError if one of ``log_probs`` is NaN. The message names ``text``, and weights that are not finite."""
    wrong = np.flatnonzero(np.isnan(log_probs))
    if not len(wrong):
        return
    token = f"token {wrong[0] + 1} of {text}"
    raise ValueError(f"{opened.name}: the log-probability of {token} is nan: {why_nan(opened.model)}")


def why_nan(model: NextWordModel) -> str:
    """Explains why a model's scores are NaN, and what to do."""
    return weights_at_fault(model) or f"all weights are finite, so it overflows; try {named('dtype', 'float32')}"


def likelihood_sum(pairs: Sequence[TokenPair], nats: Iterable[float]) -> LikelihoodSum:
    """Sums ``nats``, the negative log-likelihood of each pair's target. Each pair is one block of the bootstrap."""
    total = LikelihoodSum()
    for pair, value in zip(pairs, nats, strict=True):
        total.add(value, len(pair.target), pair.target_bytes)
    return total


# -- Running the model on a batch of spans.


def _reader(model: NextWordModel, inputs: Inputs) -> Reader:
    return lambda spans: (*distribution_at_targets(model, spans, inputs(spans)), spans)


def distribution_at_targets(
    model: NextWordModel, pairs: Sequence[TargetSpan], inputs: Mapping[str, Any] | None = None
) -> tuple[NextToken, Int[Tensor, "N"]]:
    """Runs the model on ``pairs``. Returns the distributions that predict the N target tokens, and these tokens."""
    ask = _after_sources if model.config.is_encoder_decoder else _after_prompts
    return ask(model, pairs, inputs or {})


def fill_id(model: NextWordModel) -> int:
    """Returns the token id to put at padding positions: the model's padding token, or 0 if it has none."""
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


# -- The next-token distribution after each of several rows of ids.


def ask(
    model: NextWordModel, rows: Sequence[Sequence[int]], pad: int, mode: str = "joint", everywhere: bool = False
) -> tuple[Any, Bool[Tensor, "B T"]]:
    """Returns the distributions of the token after each of ``rows``, and a mask that is True at each row's last token.

    With ``everywhere``, the distributions are those after every token of the rows, and the mask is True at every token.
    ``pad`` is the token id at padding, and ``mode`` is one of the head's ``modes``.
    """
    ids, mask = padded(rows, pad)  # padded on the right; padding has no effect, because it is masked
    positions = mask.bool() if everywhere else last_positions(mask)
    on = model.device
    return model.distribution(ids.to(on), attention_mask=mask.to(on), positions=positions.to(on), mode=mode), positions


def last_positions(mask: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """True at the last token of each row. ``mask`` is 0 at padding, which is on the right."""
    return torch.arange(mask.shape[1])[None, :] == mask.sum(dim=1, keepdim=True) - 1
