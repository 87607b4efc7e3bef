"""Chooses the weight of retrieved tokens on held-out texts, and measures the gain of an n-gram index."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from nextword.heads.calibration import CopyCalibration
from nextword.heads.knn import KnnConfig
from nextword.heads.ngram import with_ngrams
from nextword.inference.scoring.calibrate import asking, calibrate_on_texts, read
from nextword.inference.scoring.example_encoding import Example, example_tokens
from nextword.inference.scoring.measurement.all_models import score_models
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.model_passes import Watch
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import limited
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, Progress
from nextword.retrieval.ngram import MatchWeights, NgramIndex, NgramModel, expect_held_out, head_alone
from nextword.settings.setting_names import either

if TYPE_CHECKING:
    from nextword.results.records import ScoreResults


# -- A datastore: the weight and temperature of retrieved tokens.


def tuned_weight(model: AnyModel, text: str, *, window: int = 512) -> float:
    """The weight of retrieved tokens with which ``text`` is most likely, for ``configure_head(weight=...)``.

    The temperature is the head's current one. ``nw.calibrate`` also chooses the temperature, and returns the gain.

    Args:
        model: A model with the head ``knn`` and ``mix=fixed``. Its current weight does not matter.
        text: Validation text that is not in the datastore.
        window: Number of tokens that the model sees at once, at most its maximum. Windows do not overlap.

    Raises:
        ValueError: If the model has another head, the head's temperature is out of range for the model's states, or the
            text has no tokens.
    """
    opened = _opened(model)
    return _read(opened, [text], window).best_weight(opened.model.next_word_head.config.temperature)


def tuned_retrieval(model: AnyModel, texts: Sequence[str], *, window: int = 512) -> dict[str, float]:
    """The settings ``temperature`` and ``weight`` with which ``texts`` are most likely, for ``configure_head``.

    ``nw.calibrate`` also sets these values in the model if they help, and returns the gain.

    Args:
        model: A model with the head ``knn`` and ``mix=fixed``. Its current temperature and weight do not matter.
        texts: Validation texts that are not in the datastore. Each text is read separately.
        window: Number of tokens that the model sees at once, at most its maximum. Windows do not overlap.

    Raises:
        ValueError: If the model has another head, or no text has tokens.
    """
    return _read(_opened(model), texts, window).optimum().settings


def _opened(model: AnyModel) -> OpenedModel:
    opened = OpenedModel.of(model)
    config = opened.model.next_word_head.config
    if not isinstance(config, KnnConfig) or config.mix != "fixed":
        raise ValueError(f"model: must have the head knn with mix=fixed ('{config.head}' given); attach it first")
    return opened


def _read(opened: OpenedModel, texts: Sequence[str], window: int) -> CopyCalibration:
    """Statistics of all tokens of the texts."""
    window = min(window, opened.longest or window)
    examples = [Example(text, id=f"text {number}") for number, text in enumerate(texts, 1) if text]
    asked = asking(opened, examples, ScoreSettings(window=window, stride=window))
    return cast(CopyCalibration, read(opened.model, asked, opened.name).calibration)


# -- An n-gram index: the weight of a match, and scores of texts with and without the index.


def _expect_not_stored(opened: OpenedModel, index: NgramIndex, examples: Iterable[Example]) -> None:
    instead = f"take another text, or allow it with {either('--stored-text', 'stored=True')}"
    for example in examples:
        expect_held_out(index, str(example.id), example_tokens(opened, example).target.ids, instead)


def fit_to_texts(
    opened: OpenedModel,
    index: NgramIndex,
    given: GivenTexts,
    settings: ScoreSettings,
    *,
    stored: bool = False,
    progress: Progress | None = None,
) -> MatchWeights:
    """Fits the weights with which ``index`` is mixed with a model, so that the texts in ``given`` are most likely.

    The index gets the weight 0 unless the whole 95 % interval of the gain is above 0. The texts should be neither in
    the index nor in the test data.

    Raises:
        ValueError: If a text is in the index and ``stored`` is false, or the index was made with another tokenizer.
    """
    index.manifest.expect_tokenizer(opened.tokenizer, index.folder)
    examples = list(given.examples)
    if settings.limit is not None:
        examples, _ = limited(opened, examples, settings.limit)
    if not stored:
        _expect_not_stored(opened, index, examples)
    with with_ngrams(opened.model, NgramModel(index, MatchWeights(shares=head_alone()))) as model:
        results = calibrate_on_texts(opened, examples, settings, progress=progress, data=list(given.data))
        fitted: MatchWeights = model.next_word_head.memory.weights
    about = {"tokenizer": index.manifest.tokenizer, "model": opened.name, "data": results.data}
    measured = {name: getattr(results, name) for name in ("tokens", "gain", "low", "high")}
    return fitted.model_copy(update=about | measured)


def score_with_ngrams(
    opened: OpenedModel,
    memory: NgramModel,
    given: GivenTexts,
    settings: ScoreSettings,
    *,
    stored: bool = False,
    progress: Watch | None = None,
    command: str = "",
) -> ScoreResults:
    """Scores the texts in ``given`` with a model alone and mixed with an n-gram index, and compares the two scores.

    The texts should be neither in the index nor those to which the weights were fitted.

    Raises:
        ValueError: If a text is in the index and ``stored`` is false, or the index was made with another tokenizer.
    """
    memory.index.manifest.expect_tokenizer(opened.tokenizer, memory.index.folder)
    if not stored:
        _expect_not_stored(opened, memory.index, given.examples)
    with contextlib.ExitStack() as stack:

        def with_memory() -> OpenedModel:
            stack.enter_context(with_ngrams(opened.model, memory))
            return replace(opened, name=f"{opened.name}+text")

        return score_models([lambda: opened, with_memory], given, settings, progress=progress, command=command)
