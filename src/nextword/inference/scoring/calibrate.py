"""Calibration: chooses settings of a head on held-out texts, without training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, JsonValue
from torch import Tensor

from nextword.conditioning.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.distribution import NextToken
from nextword.evaluation.metrics.statistics import bootstrap_ratio
from nextword.functional.padding import IGNORED_LABEL, padded, stacked
from nextword.heads import head_spec
from nextword.heads.calibration import Calibration
from nextword.heads.context import Context
from nextword.heads.head import Head
from nextword.heads.head import registry as heads
from nextword.inference.scoring.example_encoding import Example, auxiliary_inputs, example_tokens
from nextword.inference.scoring.likelihood import (
    TokenPair,
    expect_numbers,
    fill_id,
    span_log_probs,
    target_log_probs,
    text_answers,
)
from nextword.inference.scoring.measurement.all_models import given_examples
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import limited, scored_text, scoring_window_of
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, Progress, batches
from nextword.model.modeling import NextWordModel
from nextword.model.training_modes import inference_mode_of
from nextword.retrieval.ngram import NgramIndex, expect_held_out
from nextword.runtime.files import Record
from nextword.settings.call_forms import CallForms
from nextword.settings.config import validated

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@CallForms()
def calibrate(  # noqa: PLR0913  (its options)
    model: AnyModel,
    texts: str | Example | Sequence[str | Example] | Int[Tensor, "B T"],
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
    limit: int | None = None,
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
    apply: bool = True,
    progress: Progress | None = None,
) -> CalibrationResults:
    """Chooses the settings of a head that make held-out texts most likely, in one pass and without training.

    For ``cache`` it chooses the temperature and weight, or joint normalisation of softmax and cache. For ``knn`` it
    chooses the temperature, and with ``mix=fixed`` also the weight. For ``ngram`` it chooses the shares of probability
    that matches in the index get. If the 95 % interval of the gain is not wholly above 0, ``helps`` is False and the
    weight is set to 0, so that the model predicts as without the head. A head with ``mix=joint`` has no weight; it then
    gets the best temperature.

    Args:
        model: A model with one of these heads, or its folder. The head's current settings do not matter.
        texts: One held-out text or several, from neither training nor test data; each is read separately. For a
            decoder-only model in memory also rows of token ids, without a tokenizer: the model reads each row in one
            pass, and all tokens but the first are scored.
        tokenizer: Tokenizer of the model; None for a folder, which has its own, and for token ids.
        window: Number of tokens that the model sees at once. None: the model's number of positions, at most 4,096, or
            1,024 if the model has no limit. Not for token ids.
        stride: Number of new tokens that each window after the first scores. None: half the window. Not for token ids.
        batch_size: Number of windows, or of rows of token ids, per forward pass.
        limit: Approximate number of tokens to read from the beginning of the texts; None: all. Not for token ids.
        auxiliary_tokenizer: Tokenizer of auxiliary texts, for models with a conditioner.
        apply: Whether to set the chosen settings on a model in memory, as ``configure_head`` does.
        progress: Function that receives the finished share, from 0 to 1.

    Returns:
        The chosen ``settings``, the gain in nats per token with its 95 % interval, and the likelihood with every
        setting that was tried (``curve``). The interval is a bootstrap over blocks of neighbouring tokens. The gain is
        too large by about ``1 / tokens`` nats, because the settings are chosen and measured on the same tokens.

    Raises:
        ValueError: If the head has no settings that can be chosen without training, ``texts`` is empty, or one of
            ``texts`` is mostly in the head's n-gram index or cannot be scored. A text cannot be scored if it has no
            tokens, if it lacks the source or auxiliary text that the model reads, or if a token is unknown to the
            model.

    Examples:
        >>> import nextword as nw
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<eos>": 0, "the": 1, "king": 2, "sat": 3, "and": 4}))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>")
        >>> config = GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
        >>> model = nw.attach(GPT2LMHeadModel(config), "cache")
        >>> results = nw.calibrate(model, "the king sat and the king sat " * 20, tokenizer, limit=100)
        >>> results.low <= results.gain <= results.high
        True
    """
    settings = {"window": window, "stride": stride, "batch_size": batch_size, "limit": limit}
    made = validated(ScoreSettings, {name: value for name, value in settings.items() if value is not None})
    if isinstance(texts, Tensor):
        own = cast(NextWordModel, model)
        ask = _asking_rows(own, texts, made, progress)
        for index, row in product(_indexes(own), texts.tolist()):
            expect_held_out(index, "texts", np.array(row))
        return chosen(own, ask, apply=apply, data=["token ids"])
    opened, examples = OpenedModel.of(model, tokenizer, auxiliary_tokenizer), given_examples(texts)
    expect_not_stored(opened, examples, made)
    return calibrate_on_texts(opened, examples, made, apply=apply, progress=progress, data=["texts"])


def _asking_rows(
    model: object, ids: Int[Tensor, "B T"], settings: ScoreSettings, progress: Progress | None
) -> Callable[[], object]:
    if not isinstance(model, NextWordModel) or model.config.is_encoder_decoder or model.conditioner is not None:
        raise ValueError(
            "texts: must be texts, not token ids, unless the model is attached, in memory, decoder-only and without a "
            "conditioner"
        )
    if ids.dim() != 2 or ids.is_floating_point() or ids.shape[1] < 2 or not len(ids):
        raise ValueError(
            f"texts: token ids must be rows of whole numbers, (B, T) with T of 2 at least ({tuple(ids.shape)} given)"
        )
    if {"window", "stride", "limit"} & settings.model_fields_set:
        raise ValueError(
            "texts: rows of token ids are scored whole, so window, stride and limit must be left out; or give texts"
        )
    pairs = [TokenPair(row[:1], row[1:], 0) for row in ids.tolist()]
    return partial(target_log_probs, model, pairs, settings.batch_size, progress=progress)


def calibrate_on_texts(
    opened: OpenedModel,
    examples: Sequence[Example],
    settings: ScoreSettings,
    *,
    apply: bool = True,
    progress: Progress | None = None,
    data: list[str] | None = None,
) -> CalibrationResults:
    """Like ``calibrate``, for an opened model, but does not check whether the head's n-gram index has ``examples``.

    ``data`` has the names of the texts for the results.
    """
    ask = asking(opened, examples, settings, progress)
    return chosen(opened.model, ask, apply=apply, name=opened.name, data=data)


def expect_not_stored(opened: OpenedModel, examples: Sequence[Example], settings: ScoreSettings) -> None:
    """Raises ValueError if one of ``examples`` is in the head's n-gram index, which would get too large a share."""
    for index in _indexes(opened.model):
        for example in examples if settings.limit is None else limited(opened, examples, settings.limit)[0]:
            expect_held_out(index, str(example.id or "texts"), example_tokens(opened, example).target.ids)


def _indexes(model: NextWordModel) -> list[NgramIndex]:
    stored = model.next_word_head.stored_texts().values()
    return [one for one in stored if isinstance(one, NgramIndex)]


def asking(
    opened: OpenedModel, examples: Sequence[Example], settings: ScoreSettings, progress: Progress | None = None
) -> Callable[[], None]:
    """Makes the argument ``ask`` of ``chosen`` and ``read``: a function that scores each token of ``examples`` once."""

    def ask() -> None:
        given = examples if settings.limit is None else limited(opened, examples, settings.limit)[0]
        window, inputs = scoring_window_of(opened, settings), auxiliary_inputs(opened)
        texts = [scored_text(opened, example, window) for example in given]
        asked = text_answers(opened.model, texts, window, settings.batch_size, span_log_probs, inputs, progress)
        for text, log_probs in zip(texts, asked, strict=True):
            expect_numbers(opened, str(text.example.id), torch.cat(log_probs).numpy())

    return ask


# -- Rows of tokens that the model reads in one pass, for instance rows whose states are stored.


@dataclass(frozen=True)
class HeldRows:
    """Held-out rows for a decoder-only model.

    Attributes:
        ids: Token ids of each row.
        labels: The same ids, with -100 for tokens that are not targets. The first token of a row is not a target.
        data: Names of the data from which the rows come.
    """

    ids: Sequence[Sequence[int]]
    labels: Sequence[Sequence[int]]
    data: list[str]

    def first(self, tokens: int) -> HeldRows:
        """The first rows, with at most ``tokens`` targets. Further tokens of the last row are not targets."""
        labels: list[list[int]] = []
        for row in self.labels:
            if tokens <= 0:
                break
            kept = [IGNORED_LABEL, *row[1:]]
            targets = [at for at, label in enumerate(kept) if label != IGNORED_LABEL]
            for at in targets[tokens:]:
                kept[at] = IGNORED_LABEL
            tokens -= len(targets)
            labels.append(kept)
        return HeldRows(self.ids[: len(labels)], labels, self.data)


def expect_rows_not_stored(opened: OpenedModel, rows: HeldRows) -> None:
    """Like ``expect_not_stored``, for rows: each row's target after its prompt, or the text of rows without prompts."""
    texts = [np.concatenate(rows.ids)]
    if rows.labels[0][1:2] == [IGNORED_LABEL]:  # the second token is part of a prompt
        texts = [np.array([one for one in labels if one != IGNORED_LABEL]) for labels in rows.labels]
    for index in _indexes(opened.model):
        for ids in texts:
            expect_held_out(index, ", ".join(rows.data), ids)


def calibrate_on_rows(opened: OpenedModel, rows: HeldRows, progress: Progress | None = None) -> CalibrationResults:
    """Like ``calibrate_on_texts``, for rows of token ids, each of which the model reads in one pass."""
    model, pairs = opened.model, list(zip(rows.ids, rows.labels, strict=True))

    def ask() -> None:
        for part in batches(pairs, ScoreSettings().batch_size, progress):
            ids, mask = padded([row for row, _ in part], fill_id(model))
            after = stacked([[*labels[1:], IGNORED_LABEL] for _, labels in part], IGNORED_LABEL)
            ids, mask, after = (tensor.to(model.device) for tensor in (ids, mask, after))
            counted = after != IGNORED_LABEL
            model.distribution(ids, attention_mask=mask, positions=counted).log_prob(after[counted][:, None])

    return chosen(model, ask, name=opened.name, data=rows.data)


# -- The settings that make held-out tokens most likely, and the gain.


def chosen(
    model: NextWordModel,
    ask: Callable[[], object],
    *,
    apply: bool = True,
    name: str = "model",
    data: list[str] | None = None,
) -> CalibrationResults:
    """Chooses the head's settings from held-out tokens, whose log-probabilities ``ask`` computes with ``model``.

    If ``apply`` is true, ``model`` gets these settings.

    Raises:
        ValueError: If the head has no settings to choose, no token was scored, or all tokens have probability 0.
    """
    began, reading = time.perf_counter(), read(model, ask, name)
    best = reading.calibration.optimum()
    gained = best.log_probs - best.alone
    counted = np.isfinite(gained)
    if not counted.any():
        raise ValueError("texts: must have a token that is possible to the model (all have probability 0); give others")
    block, size = reading.blocks()
    sums = np.bincount(block[counted], gained[counted])
    counts = np.bincount(block[counted]).astype(float)
    interval = bootstrap_ratio(sums[counts > 0], counts[counts > 0])
    helps = interval is not None and interval[0] > 0
    nll, without = (-float(one[counted].mean()) for one in (best.log_probs, best.alone))
    silent = None if helps else best.silent
    results = CalibrationResults(
        model=name,
        head=head_spec(model.next_word_head.config),
        data=data or [],
        tokens=len(gained),
        impossible=int((~counted).sum()),
        settings=best.settings if silent is None else silent,
        best=best.settings,
        nll=nll if silent is None else without,
        nll_without=without,
        gain=without - nll,
        low=None if interval is None else interval[0],
        high=None if interval is None else interval[1],
        block=size,
        helps=helps,
        seconds=time.perf_counter() - began,
        curve=[TriedSetting(settings=settings, nll=nats) for settings, nats in best.curve],
    )
    if apply:
        reading.calibration.apply(model, results.settings)
    return results


def read(model: NextWordModel, ask: Callable[[], object], name: str = "model") -> OnePass:
    """Calls ``ask`` once, and passes every token that ``ask`` scores to the head's calibration.

    ``ask`` can be any function that scores held-out tokens with the method ``log_prob`` of the model's distributions.
    During this call, ``log_prob`` returns values without the head's contribution.
    """
    with inference_mode_of(model):
        head, reading = model.next_word_head, OnePass(calibration_of(model, name))
        head.forward = lambda context, mode=None: _AskedOnce(context, reading)  # type: ignore[method-assign]
        try:
            ask()
        finally:
            del head.forward  # now ``forward`` is the method of the class again
    return reading


def calibration_of(model: NextWordModel, name: str = "model") -> Calibration:
    """The object that calibrates the head of ``model``. Errors show ``name`` as the model's name.

    Raises:
        ValueError: If the head has no settings to choose.
    """
    calibration: Calibration | None = model.next_word_head.calibration()
    if calibration is None:
        known = [name for name in heads.names() if heads.get(name).calibration is not Head.calibration]
        spec = head_spec(model.next_word_head.config)
        raise ValueError(
            f"{name}: must have a head whose settings can be chosen without training: {' or '.join(known)}, "
            f"with mode=joint and without a learned gate ('{spec}' given); attach one"
        )
    return calibration


def tuned(model: NextWordModel, ask: Callable[[], object]) -> dict[str, Any]:
    """Chooses and sets the settings of the head of ``model``; returns them, or {} if there are none to choose."""
    return {} if model.next_word_head.calibration() is None else dict(chosen(model, ask).settings)


# -- One pass over held-out tokens, in which the caller asks the model for their log-probabilities.

FEWEST_BLOCKS = 20
"""Minimum number of blocks with which an interval is computed."""

LONGEST_BLOCK = 256
"""Maximum number of tokens of a block: about 1,000 bytes, as in ``nextword score``."""


class OnePass:
    """One pass over held-out tokens: passes each scored token to ``calibration``, and records the tokens' sequences."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self._sequences: list[Int[np.ndarray, "N"]] = []
        self._count = 0

    def read(self, context: Context, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        """Log-probabilities of ``ids`` without the head's contribution; records ``ids`` for the calibration."""
        row = context.row.repeat_interleave(ids.shape[1]).cpu().numpy()
        self._sequences.append(row + self._count)
        self._count += context.layout.batch_size
        return self.calibration.read(context, ids)

    def blocks(self) -> tuple[Int[np.ndarray, "N"], int]:
        """The block of each token, and the maximum number of tokens per block.

        A block consists of neighbouring tokens of one sequence, which is a row of one forward pass.
        """
        sequence = np.concatenate([np.zeros(0, dtype=np.int64), *self._sequences])
        size = min(LONGEST_BLOCK, max(1, len(sequence) // FEWEST_BLOCKS))
        begins = np.concatenate([[True], sequence[1:] != sequence[:-1]])[: len(sequence)]
        inside = np.arange(len(sequence)) - np.maximum.accumulate(np.where(begins, np.arange(len(sequence)), 0))
        return np.cumsum(begins | (inside % size == 0)) - 1, size


class _AskedOnce(NextToken):
    # a distribution that allows one call of ``log_prob``, which passes the tokens to the calibration
    def __init__(self, context: Context, reading: OnePass) -> None:
        self._context, self._reading = context, reading
        self.device, self.vocab_size = context.states.device, context.vocabulary.size

    def __len__(self) -> int:
        return len(self._context.states)

    def log_prob(self, ids: Int[Tensor, "N K"]) -> Float[Tensor, "N K"]:
        self._expect_rows(ids)
        with torch.no_grad():
            return self._reading.read(self._context, ids)

    def _nothing_else(self, *_: Any, **__: Any) -> Any:
        raise TypeError("during calibration only log_prob of a distribution can be called")

    map = shared = _log_probs = _log_prob = _log_sources = _nothing_else


# -- The record of a calibration.


class TriedSetting(Record):
    """Settings that were tried, with their loss: one point of a calibration's curve."""

    settings: dict[str, JsonValue]
    """The settings."""
    nll: float
    """Nats per token with these settings."""


class CalibrationResults(Record):
    """The chosen settings, and their gain on the calibration text."""

    kind: Literal["calibration"] = "calibration"
    """Kind of file."""
    model: str
    """Name of the model in tables."""
    head: str
    """Spec of the head before calibration."""
    data: list[str] = Field(default=[])
    """Names of the texts, for reports."""
    tokens: int = Field(ge=1)
    """Number of tokens read."""
    impossible: int = Field(default=0, ge=0)
    """Number of tokens with probability 0, with or without the head's contribution. They are excluded."""
    passes: int = Field(default=1, ge=1)
    """Number of passes over the text."""
    settings: dict[str, JsonValue]
    """The chosen settings: ``best`` if ``helps`` is true, otherwise settings with which the head adds nothing."""
    best: dict[str, JsonValue]
    """The settings that make the text most likely."""
    nll: float
    """Nats per token with the chosen settings."""
    nll_without: float
    """Nats per token of the distribution to which the head adds its contribution, such as the softmax."""
    gain: float
    """Gain by the settings ``best``, in nats per token: ``nll_without`` minus the nats per token with ``best``."""
    low: float | None
    """Lower end of the gain's 95 % interval, from a paired bootstrap over blocks; None if there are too few tokens."""
    high: float | None
    """Upper end of the gain's interval."""
    block: int = Field(ge=1)
    """Maximum number of tokens per block. A block consists of neighbouring tokens of one text."""
    helps: bool
    """Whether the whole interval of the gain is above 0."""
    seconds: float = Field(ge=0)
    """Seconds of the pass and of the choice."""
    curve: list[TriedSetting]
    """Settings that were tried, with the likelihood of each."""
