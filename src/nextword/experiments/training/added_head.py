"""Attach another head to a trained model without further training, and choose its settings on held-out texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nextword.experiments.training.stored_training import writer_of
from nextword.heads import HeadConfig, head_spec
from nextword.heads.ngram import NgramConfig
from nextword.heads.wrapper_head import WrapperHead
from nextword.inference.scoring.calibrate import (
    CalibrationResults,
    HeldRows,
    calibrate_on_rows,
    calibrate_on_texts,
    calibration_of,
    expect_not_stored,
    expect_rows_not_stored,
)
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.opened_model import OpenedModel, Progress
from nextword.model.attach import attach
from nextword.model.card import CardFacts
from nextword.model.saving import save_model_folder

CALIBRATION = "calibration.json"
"""File in the model's folder with the calibration results: settings of the head chosen on held-out texts."""


@dataclass(frozen=True)
class AddedHead:
    """Result of attaching a head to a model."""

    spec: str
    """The head, with the chosen settings."""
    calibration: CalibrationResults | None
    """Results of the calibration; None if there were no held-out texts."""
    can_be_calibrated: bool
    """Whether the head has settings that can be chosen on held-out texts."""
    replaced: str | None = None
    """The model's former head, if the new head replaces it and it is not a softmax; otherwise None."""


def add_head(
    opened: OpenedModel,
    head: str,
    out: str | Path,
    held: GivenTexts | HeldRows | None = None,
    *,
    tokens: int = 10_000,
    command: str | None = None,
    progress: Progress | None = None,
) -> AddedHead:
    """Attach a head to a model without training and save it in ``out``; with ``held``, also write ``calibration.json``.

    Args:
        opened: The model, which is not modified.
        head: Spec of the head, such as ``cache`` or ``knn:store=store``.
        out: Folder of the new model.
        held: Held-out texts, or rows of tokens, on which the head's temperature and weight are chosen in one pass.
            None: keep the temperature and weight of ``head``.
        tokens: Maximum number of held-out tokens to read.
        command: Command line that repeats the call, for the model card.
        progress: Function that receives the share of tokens read so far, from 0 to 1.

    Raises:
        ValueError: If ``out`` is not empty, the model has a conditioner, the head does not fit the model or has no
            setting to choose on ``held``, or a held-out text is in the head's n-gram index.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out: must be a new folder ('{folder}' is not empty); give another folder")
    if opened.auxiliary_tokenizer is not None:
        raise ValueError(f"model: must be without a conditioner ('{opened.name}' given); use nextword.attach in Python")
    ours: Any = attach(opened.model, head)
    ours.eval()
    _expect_index(ours.next_word_head.config)
    results = None
    if held is not None:
        calibration_of(ours, "held")  # raises its error before texts are read
        over = replace(opened, model=ours)
        results = _calibrated(over, held, tokens, progress)
    write = writer_of(ours, str(opened.model.name_or_path))
    save_model_folder(ours, opened.tokenizer, folder, CardFacts(base_model=opened.name, command=command), write=write)
    if results is not None:
        results.save(folder / CALIBRATION)
    head_now = ours.next_word_head
    former: Any = getattr(opened.model, "next_word_head", None)
    keeps = former is None or head_spec(former.config) == "softmax" or isinstance(head_now, WrapperHead)
    replaced = None if keeps else head_spec(former.config)
    return AddedHead(head_spec(head_now.config), results, head_now.calibration() is not None, replaced)


def _calibrated(
    opened: OpenedModel, held: GivenTexts | HeldRows, tokens: int, progress: Progress | None
) -> CalibrationResults:
    if isinstance(held, HeldRows):
        rows = held.first(tokens)
        expect_rows_not_stored(opened, rows)
        return calibrate_on_rows(opened, rows, progress)
    settings, examples = ScoreSettings(limit=tokens), list(held.examples)
    expect_not_stored(opened, examples, settings)
    return calibrate_on_texts(opened, examples, settings, progress=progress, data=list(held.data))


def _expect_index(head: HeadConfig) -> None:
    if isinstance(head, NgramConfig) and head.index is None:
        raise ValueError(
            "head: ngram must have the index of a corpus (none given); write ngram:index=FOLDER, which "
            "nextword ngram build makes"
        )
