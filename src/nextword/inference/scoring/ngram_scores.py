"""Texts scored with an n-gram index and without, and the weights of its matches fitted to texts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.heads.ngram import with_ngrams
from nextword.inference.scoring.calibrate import calibrate_on_texts
from nextword.inference.scoring.example_encoding import Example, example_tokens
from nextword.inference.scoring.measurement.all_models import score_models
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.measurement.model_passes import Watch
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.inference.scoring.measurement.scored_texts import limited
from nextword.inference.scoring.opened_model import OpenedModel, Progress
from nextword.inference.scoring.text_tokens import whole_ids
from nextword.retrieval.ngram import (
    Document,
    MatchWeights,
    NgramIndex,
    NgramManifest,
    NgramModel,
    build_ngram_index,
    expect_held_out,
    head_alone,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.results.records import ScoreResults


def store_texts(
    tokenizer: PreTrainedTokenizerBase, given: GivenTexts, out: str | Path, command: str = "nextword ngram build"
) -> NgramManifest:
    """Stores texts as the documents of an n-gram index, in the folder ``out``, for models with this tokenizer.

    Raises:
        ValueError: No text has two tokens, or the folder holds another memory.
        DiskFullError: There is no room.
    """
    documents = (Document(str(one.id), whole_ids(tokenizer, one.text)) for one in given.examples)
    size = max(len(tokenizer), max(tokenizer.get_vocab().values()) + 1)
    fingerprint = tokenizer_fingerprint(tokenizer)
    return build_ngram_index(documents, out, vocab_size=size, tokenizer=fingerprint, data=given.data, command=command)


def _expect_not_stored(opened: OpenedModel, index: NgramIndex, examples: Iterable[Example]) -> None:
    for example in examples:
        expect_held_out(index, str(example.id), example_tokens(opened, example).target.ids)


def fit_to_texts(
    opened: OpenedModel,
    index: NgramIndex,
    given: GivenTexts,
    settings: ScoreSettings,
    *,
    stored: bool = False,
    progress: Progress | None = None,
) -> MatchWeights:
    """The weights of a memory's matches that make texts most likely, mixed with a model; the model reads them once.

    Where the gain's 95 % interval does not exclude 0, the head keeps the whole share. The texts are held out: neither
    what is stored nor what is to be scored.

    Raises:
        ValueError: A text is in the memory and may not (``stored``), or the memory was made with another tokenizer.
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
    """How likely texts are to a model, and to the same model with an n-gram index, compared on the same tokens.

    The texts are neither stored nor those that the weights were fitted to.

    Raises:
        ValueError: A text is in the memory and may not (``stored``), or the memory was made with another tokenizer.
    """
    memory.index.manifest.expect_tokenizer(opened.tokenizer, memory.index.folder)
    if not stored:
        _expect_not_stored(opened, memory.index, given.examples)
    with contextlib.ExitStack() as stack:

        def with_memory() -> OpenedModel:
            stack.enter_context(with_ngrams(opened.model, memory))
            return replace(opened, name=f"{opened.name}+text")

        return score_models([lambda: opened, with_memory], given, settings, progress=progress, command=command)
