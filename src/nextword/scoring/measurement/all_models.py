"""How likely texts are to one model or several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from jaxtyping import Float

from nextword.conditioning import conditioner_spec
from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.config import validated
from nextword.frequency.counts import TokenCounts
from nextword.heads import head_spec
from nextword.model.training_modes import measuring
from nextword.objectives import objective_spec
from nextword.pretrained import token_label
from nextword.records import Environment
from nextword.records.files import replacing
from nextword.records.score_results import BreakdownMeaning, ModelScore, ScoreResults
from nextword.scoring.breakdowns.breakdown import Breakdown
from nextword.scoring.breakdowns.copied_spans import CopiedSpans
from nextword.scoring.breakdowns.frequency_bands import FrequencyBands
from nextword.scoring.breakdowns.new_and_repeated import NewAndRepeated
from nextword.scoring.breakdowns.text_position import TextPosition
from nextword.scoring.example_encoding import Example
from nextword.scoring.measurement.data_files import GivenTexts
from nextword.scoring.measurement.interval_units import Units
from nextword.scoring.measurement.model_values import TokenColumns, group_scores, values
from nextword.scoring.measurement.paired_differences import differences, same_tokens
from nextword.scoring.measurement.score_settings import ScoreSettings
from nextword.scoring.measurement.scored_texts import ScoredText, Sight, limited, scored_text
from nextword.scoring.measurement.token_answers import LOG_PROBS, answers, expect_numbers
from nextword.scoring.measurement.tokens_file import facts_question, token_lines
from nextword.scoring.opened_model import AnyModel, OpenedModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Watch = Callable[[str, float], None]
"""Told a model's name and the share of its tokens that are done."""


LONGEST_PATH = 255
"""Characters of a text that may be the name of a file."""


def score(
    model: AnyModel | Mapping[str, AnyModel],
    tokenizer: PreTrainedTokenizerBase | Mapping[str, PreTrainedTokenizerBase] | None = None,
    texts: str | Example | Sequence[str | Example] = (),
    *,
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
    tokens: str | Path | None = None,
    progress: Watch | None = None,
    **settings: Any,
) -> ScoreResults:
    """How likely texts are to a model: perplexity, nats per token, bits per byte, and by group of tokens.

    Every token is scored once. A text longer than the model's window is scored in windows that overlap, so that all but
    its first tokens have at least ``window - stride`` tokens before them.

    Args:
        model: A model, ours or any of transformers, or the folder or hub name of one; or several by name, which are
            compared on the same texts.
        tokenizer: Its tokenizer, or that of all models, or one for each by name; None for folders, which have their
            own.
        texts: A text or several, each scored by itself. An ``Example`` has a
            prompt, a source or an auxiliary text too.
        auxiliary_tokenizer: Makes inputs of auxiliary texts, for models that follow one.
        tokens: File for what the models say of every token, one JSON object a line.
        progress: Told how far it is.
        settings: Of ``ScoreSettings``: ``window``, ``stride``,
            ``batch_size``, ``limit``, ``counts``, ``span``, ``places``.

    Raises:
        ValueError: No text, a text that a model cannot read, a setting that does not fit, or weights that are no
            numbers.

    Examples:
        >>> result = nw.score(model, tokenizer, ["The king sat.", "The queen stood."])  # doctest: +SKIP
        >>> result.perplexity, result.models[0].breakdowns["repetition"][0].nll  # doctest: +SKIP
    """
    name_of_one = Path(model).name if isinstance(model, str | Path) else type(model).__name__
    models = dict(model) if isinstance(model, Mapping) else {name_of_one: model}
    tokenizers = tokenizer if isinstance(tokenizer, Mapping) else dict.fromkeys(models, tokenizer)
    missing = [name for name in models if name not in tokenizers]
    if missing or not models:
        raise ValueError(f"tokenizer: must have one for each model ({', '.join(missing) or 'no model'} has none)")
    opened = [
        lambda name=name, one=one: OpenedModel.of(one, tokenizers[name], auxiliary_tokenizer, name)
        for name, one in models.items()
    ]
    given = [texts] if isinstance(texts, str | Example) else list(texts)
    _expect_no_path(given)
    examples = [one if isinstance(one, Example) else Example(one) for one in given]
    examples = [replace(one, id=one.id or f"text {number}") for number, one in enumerate(examples, 1)]
    made = validated(ScoreSettings, settings)
    return score_models(opened, GivenTexts.of(examples, ["texts"]), made, tokens=tokens, progress=progress)


def _expect_no_path(texts: Sequence[object]) -> None:
    """The command takes files, this function takes texts: the name of a file would be scored letter by letter."""
    for text in texts:
        if isinstance(text, str) and 0 < len(text) < LONGEST_PATH and "\n" not in text and os.path.isfile(text):
            raise ValueError(
                f"texts: must be texts, not files ('{text}' given, which is a file); read it: "
                f"Path('{text}').read_text(), or use the command: nextword score MODEL {text}"
            )


def score_models(
    models: Iterable[Callable[[], OpenedModel]],
    given: GivenTexts,
    settings: ScoreSettings,
    *,
    tokens: str | Path | None = None,
    progress: Watch | None = None,
    command: str = "",
) -> ScoreResults:
    """The same for models that are opened one after the other, so that only one of them is in memory.

    Args:
        models: Each opens one.
        given: The texts.
        settings: How they are scored.
        tokens: File for what the models say of every token.
        progress: Told how far it is.
        command: What makes these results again.
    """
    examples = given.examples
    columns: dict[str, TokenColumns] = {}
    scores: list[ModelScore] = []
    meanings: dict[str, BreakdownMeaning] = {}
    with replacing(tokens) if tokens is not None else nullcontext() as file:
        for open_one in models:
            opened = open_one()
            if settings.limit is not None and not scores:
                examples = limited(opened, examples, settings.limit)
            units = Units.of(examples)
            one = _Asked.of(opened, examples, settings)
            columns[opened.name] = one.columns(units, file, progress)
            scores.append(one.score(columns[opened.name]))
            meanings = {one.key: BreakdownMeaning(title=one.title, meaning=one.meaning) for one in one.breakdowns}
            del opened, one  # before the next model is opened
    return ScoreResults(
        command=command,
        data=given.data,
        fields=given.fields,
        texts=len(examples),
        bytes=sum(len(example.text.encode()) for example in examples),
        empty=given.empty,
        unit=units.name,
        units=units.count,
        models=scores,
        same_tokens=same_tokens(columns),
        breakdowns=meanings,
        differences=differences(columns),
        settings=settings.model_dump(mode="json"),
        environment=Environment.collect(),
    )


@dataclass(frozen=True)
class _Asked:
    """One model and the texts in its tokens."""

    opened: OpenedModel
    sight: Sight
    texts: list[ScoredText]
    breakdowns: tuple[Breakdown, ...]
    settings: ScoreSettings

    @classmethod
    def of(cls, opened: OpenedModel, examples: Sequence[Example], settings: ScoreSettings) -> _Asked:
        sight = Sight.of(opened, settings)
        texts = [scored_text(opened, example, sight) for example in examples]
        frequency = FrequencyBands.of_texts(texts)
        if settings.counts is not None:
            counts = TokenCounts.load(settings.counts, "counts")
            counts.expect_tokenizer(opened.tokenizer, "counts")
            frequency = FrequencyBands.of_counts(counts)
        breakdowns = (NewAndRepeated(), CopiedSpans(settings.span), frequency, TextPosition())
        return cls(opened, sight, texts, breakdowns, settings)

    def columns(self, units: Units, file: BinaryIO | None, progress: Watch | None) -> TokenColumns:
        """Asks the model; what it says of each token is written to a file, where there is one."""
        found: list[Float[np.ndarray, "T"]] = []
        with measuring(self.opened.model):
            for text, log_probs in zip(self.texts, self._log_probs(file, progress), strict=True):
                expect_numbers(self.opened, text, log_probs)
                found.append(log_probs)
        return TokenColumns.of(self.texts, found, units, self.breakdowns)

    def _log_probs(self, file: BinaryIO | None, progress: Watch | None) -> Iterator[Float[np.ndarray, "T"]]:
        name = self.opened.name
        told = None if progress is None else lambda share: progress(name, share)
        size = self.settings.batch_size
        if file is None:
            yield from answers(self.opened, self.texts, self.sight, size, LOG_PROBS, told)
            return
        labels = cache(partial(token_label, self.opened.tokenizer))
        asked = answers(self.opened, self.texts, self.sight, size, facts_question(self.settings.places), told)
        for text, facts in zip(self.texts, asked, strict=True):
            yield facts.log_prob
            groups = {one.key: [one.names[code] for code in one.codes(text)] for one in self.breakdowns}
            for line in token_lines(name, text, facts, groups, labels):
                file.write(line)

    def score(self, columns: TokenColumns) -> ModelScore:
        """What it said, in numbers."""
        model = self.opened.model
        found, undefined = values(columns)
        conditioner = model.conditioner
        has_prompt = any(len(text.prompt) for text in self.texts)
        return ModelScore(
            name=self.opened.name,
            location=str(model.name_or_path or model.backbone.name_or_path),
            head=head_spec(model.next_word_head.config),
            objective=objective_spec(model.objective.config),
            conditioner=None if conditioner is None else conditioner_spec(conditioner.config),
            backbone=type(model.backbone).__name__,
            parameters=sum(weight.numel() for weight in model.parameters()),
            reads=[*(["prompt"] if has_prompt else []), *self.texts[0].copied_from],
            window=self.sight.window,
            stride=self.sight.stride,
            tokens=len(columns.ids),
            impossible=columns.impossible,
            cut_sources=sum(text.source_is_cut for text in self.texts),
            values=found,
            undefined=undefined,
            breakdowns=group_scores(columns),
        )
