"""Grid search: trains a method with every combination of settings, and chooses the one with the lowest validation loss.

All seeds use the chosen combination. The test split is not used. The file ``search/<method>.json`` is written after
each combination, so an interrupted search resumes. The search trains with one seed (``search_seed``). The run with this
seed does not train again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from nextword.experiments.comparison.comparison_settings import common_settings, plain
from nextword.experiments.comparison.folder import ComparisonFolder, stored
from nextword.experiments.comparison.method import Method
from nextword.experiments.comparison.one_run import Run, Setting, train_stages
from nextword.experiments.tasks.task import architecture_of
from nextword.experiments.training.loss_curve import DivergedError
from nextword.experiments.training.one_training import batch_collator
from nextword.functional.padding import IGNORED_LABEL
from nextword.inference.scoring.opened_model import Progress, batches
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import GridSearch, Record, TriedSettings
from nextword.runtime.devices import best_device

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


class StoredSearch(Record):
    """The content of a search's file: the method and the search."""

    method: dict[str, Any]
    """All settings of the method."""
    search: GridSearch
    """The search, with the combinations tried so far."""


def searched(run: Run, setting: Setting) -> Run:
    """Return ``run`` with the settings that the search of its method chose. An unfinished search is finished first.

    Raises:
        ValueError: If every training of the search diverged or has a validation loss that is not a finite number.
    """
    if not run.method.search:
        return run
    search = _whole_search(run.method, setting)
    if search.chosen is None:
        reasons = "; ".join(dict.fromkeys(str(one.reason) for one in search.tried))
        raise ValueError(f"search: none of its {len(search.tried)} trainings can be used ({reasons})")
    return Run(run.method.with_settings(search.chosen), run.seed)


def finished_searches(setting: Setting) -> dict[str, GridSearch]:
    """A mapping from the title of each method with a stored search to this search, which may be unfinished."""
    found = {method.title: _stored(method, setting.folder) for method in setting.config.methods if method.search}
    return {title: search for title, search in found.items() if search is not None}


def _whole_search(method: Method, setting: Setting) -> GridSearch:
    folder = setting.folder
    seed = setting.config.seeds[0] if method.search_seed is None else method.search_seed
    search = _stored(method, folder)
    if search is None:
        for one in setting.config.seeds:
            folder.forget(method, one)  # results of an earlier search with another grid
        search = GridSearch(seed=seed, tried=[], chosen=None)
    runs = [Run(candidate, search.seed) for candidate in method.candidates]
    for number in range(len(search.tried), len(runs)):
        tried = [*search.tried, _tried(method.combinations[number], runs[number], setting)]
        best = min((one for one in tried if one.nats is not None), key=lambda one: one.nats or 0.0, default=None)
        search = GridSearch(seed=search.seed, tried=tried, chosen=None if best is None else best.settings)
        StoredSearch(method=plain(method), search=search).save(folder.search(method))
        _drop_losers(method, search, setting)
    return search


def _tried(settings: dict[str, Any], run: Run, setting: Setting) -> TriedSettings:
    # the validation loss of a training; if the training failed, the failure is recorded and the training not repeated
    trained = setting.folder.trained(run.method, run.seed)
    try:
        if setting.folder.trained_outcome(trained) is None:
            train_stages(run, setting)
    except DivergedError as problem:
        return TriedSettings(settings=settings, reason=str(problem))
    with setting.stages(run.name, "validation") as advanced:
        batch_size = common_settings(setting.config).batch_size
        model = setting.start.saved(trained / "model", LIKELIHOOD)
        nats = validation_nats(model, setting.rows.validation, batch_size, advanced)
    if not math.isfinite(nats):
        return TriedSettings(settings=settings, reason="the validation loss is not a finite number")
    return TriedSettings(settings=settings, nats=nats)


def _drop_losers(method: Method, search: GridSearch, setting: Setting) -> None:
    # deletes the models of combinations that were not chosen, except models that other runs need
    folder, candidates = setting.folder, method.candidates
    count = len(search.tried)
    tried = {stage for one in candidates[:count] for stage in folder.stages(one, search.seed)}
    needed = {stage for one in candidates[count:] for stage in folder.stages(one, search.seed)}
    needed |= {
        stage
        for one in setting.config.methods
        for seed in {*setting.config.seeds, search.seed}
        for stage in folder.stages(settled(one, folder), seed)
    }
    for stage in sorted(tried - needed):
        folder.drop_model(stage)


def settled(method: Method, folder: ComparisonFolder) -> Method:
    """``method`` with the settings that its search in ``folder`` chose; unchanged without a search or a choice."""
    search = _stored(method, folder) if method.search else None
    return method if search is None or search.chosen is None else method.with_settings(search.chosen)


def is_searched(method: Method, folder: ComparisonFolder) -> bool:
    """Whether a method's search is finished. True for a method without a search."""
    if not method.search:
        return True
    search = _stored(method, folder)
    return search is not None and len(search.tried) == len(method.combinations)


def _stored(method: Method, folder: ComparisonFolder) -> GridSearch | None:
    found = stored(StoredSearch, folder.search(method), "the search is made again")
    return found.search if found is not None and found.method == plain(method) else None


# -- Nats per token of validation rows. A search compares its trainings by them, whatever the training objective is.

LIKELIHOOD = "mle"
"""Objective whose loss is the negative log-likelihood under the head's whole distribution."""


def validation_nats(model: NextWordModel, rows: Any, batch_size: int, progress: Progress | None = None) -> float:
    """Mean negative log-likelihood of the labels in ``rows`` under ``model``, whose objective must be ``LIKELIHOOD``.

    The likelihood is used instead of the training loss, so that models with different loss weights (HistAlign's alpha)
    are comparable. ``rows`` are the rows that ``Data.validation`` returns. ValueError if they have no tokens to
    predict.

    Returns:
        Nats per token over all tokens; NaN if the loss of a batch is NaN or infinite.
    """
    model.to(best_device())
    collator, aligned = batch_collator(model), not architecture_of(model.config).has_encoder
    sums: list[float] = []
    tokens = 0
    with inference_mode_of(model), torch.no_grad():
        for part in batches(range(len(rows)), batch_size, progress):
            batch = collator([rows[number] for number in part])
            labels = batch["labels"][:, 1:] if aligned else batch["labels"]  # no position predicts a row's first token
            tokens += int((labels != IGNORED_LABEL).sum())
            batch = {name: one.to(model.device) if hasattr(one, "to") else one for name, one in batch.items()}
            sums.append(float(model(**batch, num_items_in_batch=1).loss))
    if not tokens:
        raise ValueError("search: there are no validation rows to choose by; give the task some, or leave search out")
    return math.fsum(sums) / tokens if all(map(math.isfinite, sums)) else math.nan
