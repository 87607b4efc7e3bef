"""Another head on a finished model, without training; its settings chosen on held-out text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nextword.datastore.tuning import TEMPERATURES, tuned_retrieval
from nextword.heads import head_spec
from nextword.heads.cache import CacheConfig
from nextword.heads.knn import KnnConfig
from nextword.model.attach import attach
from nextword.model.saving import save_model_folder
from nextword.model.training_modes import measuring
from nextword.model_card import CardFacts
from nextword.scoring.measurement.data_files import GivenTexts
from nextword.scoring.measurement.score_settings import ScoreSettings
from nextword.scoring.measurement.scored_texts import Sight, limited, scored_text
from nextword.scoring.measurement.token_answers import LOG_PROBS, answers
from nextword.scoring.opened_model import OpenedModel
from nextword.tasks.parts.cache_tuning import best_settings, tune_cache


@dataclass(frozen=True)
class AddedHead:
    """What was put on a model.

    Attributes:
        spec: The head, with the settings that were chosen.
        chosen: Those settings; empty where there was no held-out text.
    """

    spec: str
    chosen: dict[str, float | None]


def add_head(
    opened: OpenedModel,
    head: str,
    out: str | Path,
    held: GivenTexts | None = None,
    *,
    tokens: int = 10_000,
    command: str | None = None,
) -> AddedHead:
    """Saves a model with another head over the same weights.

    Args:
        opened: The model, which stays as it is.
        head: Spec of the head, such as ``cache`` or ``knn:store=store``.
        out: Folder of the new model.
        held: Texts on which a cache's or a store's temperature and weight are chosen; None: they are as in ``head``.
        tokens: How many tokens of them are read.
        command: What made it, for the model card.

    Raises:
        ValueError: ``out`` holds something already, the head cannot sit on the model, or it has nothing to choose.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out: must be a new folder ('{folder}' has something in it); name another")
    if opened.auxiliary_tokenizer is not None:
        raise ValueError(f"model: must be without a conditioner ('{opened.name}' given); use nextword.attach in Python")
    ours: Any = attach(opened.model, head)
    ours.eval()
    over = replace(opened, model=ours)
    chosen = {} if held is None else _chosen(over, held, tokens)
    ours.configure_head(**chosen)
    save_model_folder(ours, opened.tokenizer, folder, CardFacts(base_model=opened.name, command=command))
    return AddedHead(head_spec(ours.next_word_head.config), chosen)


def _chosen(opened: OpenedModel, held: GivenTexts, tokens: int) -> dict[str, float | None]:
    """Temperature and weight under which the texts are most likely."""
    config = opened.model.next_word_head.config
    examples, _ = limited(opened, list(held.examples), tokens)
    if isinstance(config, KnnConfig) and config.mix == "fixed":
        return {**tuned_retrieval(opened, [one.text for one in examples])}
    jointly = isinstance(config, KnnConfig) and config.mix == "joint"
    if not jointly and not isinstance(config, CacheConfig):
        raise ValueError(
            f"held: must be with a head whose temperature and weight can be chosen: cache, or knn with mix=fixed or "
            f"joint ('{head_spec(config)}' given); leave it out"
        )
    settings = ScoreSettings()
    sight = Sight.of(opened, settings)
    texts = [scored_text(opened, example, sight) for example in examples]

    def nll() -> float:
        asked = answers(opened, texts, sight, settings.batch_size, LOG_PROBS)
        return -float(np.concatenate(list(asked)).mean())

    with measuring(opened.model):
        if jointly:  # one normaliser has no weight to choose
            return best_settings(opened.model, nll, ({"temperature": one} for one in TEMPERATURES))
        return tune_cache(opened.model, nll)
