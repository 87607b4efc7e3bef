"""Weight and temperature of what is retrieved, tuned on validation text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from nextword.heads.calibration import CopyCalibration
from nextword.heads.knn import KnnConfig
from nextword.inference.scoring.calibrate import asking, read
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel

if TYPE_CHECKING:
    pass


def tuned_weight(model: AnyModel, text: str, *, window: int = 512) -> float:
    """The share of what is retrieved under which a text is most likely; ``configure_head(weight=...)`` takes it.

    ``nw.calibrate`` chooses the temperature too, and says what both gain.

    Args:
        model: With the head ``knn`` and ``mix=fixed``; its own weight does not matter.
        text: Validation text, which is not in the store.
        window: Tokens that the model sees at once.

    Raises:
        ValueError: The model has another head, its temperature makes no sense for its states, or the text has no
            tokens.
    """
    opened = _opened(model)
    return _read(opened, [text], window).best_weight(opened.model.next_word_head.config.temperature)


def tuned_retrieval(model: AnyModel, texts: Sequence[str], *, window: int = 512) -> dict[str, float]:
    """The temperature and the weight under which texts are most likely; ``configure_head`` takes them.

    ``nw.calibrate`` leaves the model with them, where they help, and says how much.

    Args:
        model: With the head ``knn`` and ``mix=fixed``; its own temperature and weight do not matter.
        texts: Validation texts, which are not in the store; each is read by itself.
        window: Tokens that the model sees at once.

    Raises:
        ValueError: The model has another head, or no text has a token.
    """
    return _read(_opened(model), texts, window).optimum().settings


def _opened(model: AnyModel) -> OpenedModel:
    opened = OpenedModel.of(model)
    config = opened.model.next_word_head.config
    if not isinstance(config, KnnConfig) or config.mix != "fixed":
        raise ValueError(f"model: must have the head knn with mix=fixed ('{config.head}' given); attach it first")
    return opened


def _read(opened: OpenedModel, texts: Sequence[str], window: int) -> CopyCalibration:
    """What was kept of all tokens of the texts."""
    window = min(window, opened.longest or window)
    examples = [Example(text, id=f"text {number}") for number, text in enumerate(texts, 1) if text]
    asked = asking(opened, examples, ScoreSettings(window=window, stride=window))
    return cast(CopyCalibration, read(opened.model, asked, opened.name).calibration)
