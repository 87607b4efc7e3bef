"""Texts that are written from prompts, as what a task writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nextword.experiments.tasks.task import Writes
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.samples_files import Writer, write_samples
from nextword.inference.generation.strategies import SeededDecoding, Texts
from nextword.inference.scoring.opened_model import Progress
from nextword.inference.scoring.target_likelihood import Inputs, no_inputs
from nextword.results.records import TopWord
from nextword.runtime.pretrained import token_label

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


class PromptedTexts(Writes):
    """Texts after each prompt: as long as what people wrote there, or until the model ends them.

    Args:
        texts: Which texts, and how they are measured.
        prompts: The prompts in tokens of a tokenizer, by the kind that a decoding names.
        batch_size: Texts written at a time.
        score_batch: Targets scored at a time.
        inputs: What a model reads besides, by model and tokenizer.
        longest: Tokens of a text at most, which the model may end. ``None``: as many as people wrote, which are as many
            after every prompt.
        search: Arguments of ``generate`` for all methods, such as limits of what is written.
    """

    def __init__(
        self,
        texts: Texts,
        prompts: Callable[[PreTrainedTokenizerBase], Mapping[str, Sequence[Prompt]]],
        batch_size: int,
        score_batch: int,
        inputs: Callable[[Any, PreTrainedTokenizerBase], Inputs] = lambda model, tokenizer: no_inputs,
        longest: int | None = None,
        search: Mapping[str, Any] | None = None,
    ) -> None:
        self.texts, self._search = texts, dict(search or {})
        self._prompts, self._inputs = prompts, inputs
        self._batch_size, self._score_batch, self._longest = batch_size, score_batch, longest

    def write(
        self,
        model: NextWordModel,
        tokenizer: PreTrainedTokenizerBase,
        files: Mapping[Path, SeededDecoding],
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """The log-probabilities of what people wrote are the same in each file of a kind of prompts."""
        writer = Writer(model, self._batch_size, self._inputs(model, tokenizer), {**self._search, **arguments})
        prompts = self._prompts(tokenizer)
        write_samples(writer, tokenizer, prompts, files, self._score_batch, progress, self._longest)


# -- The most probable tokens at one position, for the example predictions of a report.


def top_words(distribution: Any, row: int, k: int, tokenizer: PreTrainedTokenizerBase) -> list[TopWord]:
    """The ``k`` first tokens of one of N positions, with the share of every source; those of probability 0 left out."""
    log_probs, ids = distribution.top_k(k)
    sources = {name: shares[row].tolist() for name, shares in distribution.sources(ids).items()}
    return [
        TopWord(
            word=token_label(tokenizer, token),
            probability=math.exp(log_prob),
            sources={name: shares[rank] for name, shares in sources.items()},
        )
        for rank, (log_prob, token) in enumerate(zip(log_probs[row].tolist(), ids[row].tolist(), strict=True))
        if log_prob > -math.inf
    ]
