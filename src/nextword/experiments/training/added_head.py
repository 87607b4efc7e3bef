"""Another head on a finished model, without training; its settings chosen on held-out text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nextword.heads import HeadConfig, head_spec
from nextword.heads.ngram import NgramConfig
from nextword.heads.wrapper_head import WrapperHead
from nextword.inference.scoring.calibrate import (
    CalibrationResults,
    calibrate_on_texts,
    calibration_of,
    expect_not_stored,
)
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel, Progress
from nextword.model.attach import attach
from nextword.model.card import CardFacts
from nextword.model.saving import save_model_folder

CALIBRATION = "calibration.json"
"""File of the model's folder that says how its settings were chosen."""


@dataclass(frozen=True)
class AddedHead:
    """What was put on a model."""

    spec: str
    """The head, with the settings that were chosen."""
    calibration: CalibrationResults | None
    """How they were; None where there was no held-out text."""
    can_be_calibrated: bool
    """Whether it has settings that held-out text could choose."""
    replaced: str | None = None
    """The model's former head, where the new one does not lie over it and it is more than its softmax."""


def add_head(
    opened: OpenedModel,
    head: str,
    out: str | Path,
    held: GivenTexts | None = None,
    *,
    tokens: int = 10_000,
    command: str | None = None,
    progress: Progress | None = None,
) -> AddedHead:
    """Saves a model with another head over the same weights, and beside it how its settings were chosen.

    Args:
        opened: The model, which stays as it is.
        head: Spec of the head, such as ``cache`` or ``knn:store=store``.
        out: Folder of the new model.
        held: Texts on which a cache's or a store's temperature and weight are chosen, in one pass; None: they are as in
            ``head``.
        tokens: How many tokens of them are read.
        command: What made it, for the model card.
        progress: Told the share of the tokens that is read.

    Raises:
        ValueError: ``out`` holds something already, the head cannot sit on the model or has nothing to choose, or a
            text is in its n-gram index.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out: must be a new folder ('{folder}' has something in it); name another")
    if opened.auxiliary_tokenizer is not None:
        raise ValueError(f"model: must be without a conditioner ('{opened.name}' given); use nextword.attach in Python")
    ours: Any = attach(opened.model, head)
    ours.eval()
    _expect_index(ours.next_word_head.config)
    results = None
    if held is not None:
        calibration_of(ours, "held")  # refused before texts are read
        over, settings = replace(opened, model=ours), ScoreSettings(limit=tokens)
        examples = list(held.examples)
        expect_not_stored(over, examples, settings)
        results = calibrate_on_texts(over, examples, settings, progress=progress, data=list(held.data))
    save_model_folder(ours, opened.tokenizer, folder, CardFacts(base_model=opened.name, command=command))
    if results is not None:
        results.save(folder / CALIBRATION)
    head_now = ours.next_word_head
    former: Any = getattr(opened.model, "next_word_head", None)
    keeps = former is None or head_spec(former.config) == "softmax" or isinstance(head_now, WrapperHead)
    replaced = None if keeps else head_spec(former.config)
    return AddedHead(head_spec(head_now.config), results, head_now.calibration() is not None, replaced)


def _expect_index(head: HeadConfig) -> None:
    if isinstance(head, NgramConfig) and head.index is None:
        raise ValueError(
            "head: ngram must have the index of a corpus (none given); write ngram:index=FOLDER, which "
            "nextword ngram build makes"
        )
