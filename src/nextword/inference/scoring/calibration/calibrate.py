"""Settings of a head chosen on held-out texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxtyping import Int
from torch import Tensor

from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.inference.scoring.calibration.calibration_results import CalibrationResults
from nextword.inference.scoring.calibration.chosen_settings import chosen
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.all_models import given_examples
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import Sight, limited, scored_text
from nextword.inference.scoring.measurement.token_answers import LOG_PROBS, answers, expect_numbers
from nextword.inference.scoring.minibatches import Progress
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel
from nextword.inference.scoring.target_likelihood import TokenPair, target_log_probs
from nextword.model.modeling import NextWordModel
from nextword.settings.config import validated

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def calibrate(
    model: AnyModel,
    texts: str | Example | Sequence[str | Example] | Int[Tensor, "B T"],
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
    apply: bool = True,
    progress: Progress | None = None,
    **settings: Any,
) -> CalibrationResults:
    """Chooses the settings of a head under which held-out texts are most likely, in one pass and without training.

    For ``cache``: temperature and weight, or one normaliser for softmax and cache; for ``knn`` the same with
    ``mix=fixed``, and the temperature with ``mix=joint``; for a model inside ``recalling``, the weights of its text
    memory. Where the 95 % interval of the gain does not exclude 0, nothing helps: the weight is 0 then, and the model
    as likely to say anything as without the head. (``mix=joint`` has no such setting; it gets the best temperature, and
    ``helps`` is False.)

    Args:
        model: A model with such a head, or the folder of one; how it is set does not matter.
        texts: A text or several, each read by itself, and neither trained on nor to be tested on. Or rows of token ids,
            for a decoder-only model in memory and without a tokenizer: each row is read in one piece, and all but its
            first token count.
        tokenizer: Its tokenizer; None for a folder, which has its own, and for token ids.
        auxiliary_tokenizer: Makes inputs of auxiliary texts, for models that follow one.
        apply: Whether a model in memory is left with what was chosen, as by ``configure_head``.
        progress: Told the share that is done.
        settings: Of ``nw.score``: ``window``, ``stride``, ``batch_size``, ``limit``. Rows of ids take ``batch_size``.

    Returns:
        What was chosen (``settings``), the gain in nats per token with its interval, and the curve. The interval is a
        bootstrap over blocks of neighbouring tokens. Two numbers are fitted to the very tokens that they are judged by,
        which flatters them by some 1 / tokens nats.

    Raises:
        ValueError: The head has nothing to choose, there is no text, or the model cannot read one.

    Examples:
        >>> model = nw.attach(backbone, "cache")  # doctest: +SKIP
        >>> results = nw.calibrate(model, valid_text, tokenizer, limit=10_000)  # doctest: +SKIP
        >>> results.settings, results.gain, (results.low, results.high)  # doctest: +SKIP
    """
    made = validated(ScoreSettings, settings)
    if isinstance(texts, Tensor):
        return chosen(model, _asking_rows(model, texts, made, progress), apply=apply, data=["token ids"])
    opened = OpenedModel.of(model, tokenizer, auxiliary_tokenizer)
    return calibrate_on_texts(opened, given_examples(texts), made, apply=apply, progress=progress, data=["texts"])


def _asking_rows(
    model: object, ids: Int[Tensor, "B T"], settings: ScoreSettings, progress: Progress | None
) -> Callable[[], None]:
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
        raise ValueError("texts: of token ids each row is read in one piece; cut them yourself, or give texts")
    pairs = [TokenPair(row[:1], row[1:], 0) for row in ids.tolist()]

    def ask() -> None:
        target_log_probs(model, pairs, settings.batch_size, progress=progress)

    return ask


def calibrate_on_texts(
    opened: OpenedModel,
    examples: Sequence[Example],
    settings: ScoreSettings,
    *,
    apply: bool = True,
    progress: Progress | None = None,
    data: list[str] | None = None,
) -> CalibrationResults:
    """The same for a model that is open, read as ``nextword score`` reads.

    Args:
        opened: The model.
        examples: The texts.
        settings: How they are read.
        apply: Whether the model is left with what was chosen.
        progress: Told the share that is done.
        data: Where the texts are from, for the record.
    """
    ask = asking(opened, examples, settings, progress)
    return chosen(opened.model, ask, apply=apply, name=opened.name, data=data)


def asking(
    opened: OpenedModel, examples: Sequence[Example], settings: ScoreSettings, progress: Progress | None = None
) -> Callable[[], None]:
    """What asks a model, once, for the log-probability of each token of texts; as ``calibrate_on_texts``."""

    def ask() -> None:
        given = examples if settings.limit is None else limited(opened, examples, settings.limit)[0]
        sight = Sight.of(opened, settings)
        texts = [scored_text(opened, example, sight) for example in given]
        asked = answers(opened, texts, sight, settings.batch_size, LOG_PROBS, progress)
        for text, log_probs in zip(texts, asked, strict=True):
            expect_numbers(opened, text, log_probs)

    return ask
