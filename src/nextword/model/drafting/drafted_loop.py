"""The loop of ``generate`` with drafts: guess, judge all guesses in one pass, keep what the model writes itself."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import StaticCache
from transformers.cache_utils import Cache
from transformers.generation import logits_process
from transformers.generation.configuration_utils import GenerationMode
from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput
from transformers.utils.generic import ModelOutput

from nextword.functional.entries import TextRead
from nextword.model.drafting.drafter import Decided, Draft, KnownText
from nextword.model.drafting.drafting import Drafting, VerifiedDraft
from nextword.model.drafting.step_inputs import StepInputs, can_write_together
from nextword.model.drafting.word_choice import RandomNumbers, WordChoice
from nextword.model.head_cache.kv_cache import kv_length

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class DraftedLoop:
    """Greedy search and sampling with drafts; an instance is what ``generate`` takes as ``custom_generate``.

    Attributes:
        drafting: Who guesses, and how much.
        uniform: A number in [0, 1) for each text and new word, by which words are drawn; None: from torch's generator.
        streamer: Is handed each word as it is chosen, the prompt not.
    """

    drafting: Drafting
    uniform: Float[Tensor, "B T"] | None = None
    streamer: Any = None

    def __call__(
        self,
        model: NextWordModel,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        """Called by ``generate`` in place of its own loop."""
        expect_draftable(model, len(input_ids), generation_config, logits_processor, self.streamer, model_kwargs)
        self.drafting.drafter.expect_fit(model)
        self.drafting.begin()
        numbers = RandomNumbers(len(input_ids), self.uniform) if generation_config.do_sample else None
        rules = Rules(list(logits_processor), stopping_criteria, generation_config, numbers)
        if len(input_ids) == 1 or can_write_together(model, model_kwargs):
            run = DraftedRun(self, model, input_ids, rules, model_kwargs)
            sequences = run.write()
            cache = run.cache
        else:
            rows = each_row(input_ids, model_kwargs)
            parts = [
                DraftedRun(self, model, ids, rules, arguments, first=row).write()
                for row, (ids, arguments) in enumerate(rows)
            ]
            sequences, cache = joined(parts, rules.pad), None
        if self.streamer is not None:
            self.streamer.end()
        if not generation_config.return_dict_in_generate:
            return sequences
        kind: Any = GenerateEncoderDecoderOutput if model.config.is_encoder_decoder else GenerateDecoderOnlyOutput
        return kind(sequences=sequences, past_key_values=cache if len(sequences) == 1 else None)


@dataclass(frozen=True)
class Rules:
    """What decides a text besides the model.

    Attributes:
        processors: Change scores.
        stops: Says which texts end.
        config: Of this call.
        numbers: What words are drawn by; None: nothing is drawn.
    """

    processors: list[Any]
    stops: Any
    config: Any
    numbers: RandomNumbers | None

    @property
    def pad(self) -> int:
        """Stands behind finished texts."""
        pad = getattr(self.config, "_pad_token_tensor", None)
        return 0 if pad is None else int(pad)


class DraftedRun:
    """Writes the texts of one batch.

    Args:
        loop: What was asked for.
        model: Ours.
        ids: The prompts (B, T), or what a decoder starts with.
        rules: What decides a text besides the model.
        arguments: The model's.
        first: Number of the first text, where a batch is written one text after the other.
    """

    def __init__(
        self, loop: DraftedLoop, model: NextWordModel, ids: Int[Tensor, "B T"], rules: Rules, arguments: dict[str, Any],
        first: int = 0,
    ) -> None:  # fmt: skip
        self._drafting, self._streamer, self._model, self._rules, self._first = (
            loop.drafting, loop.streamer, model, rules, first,
        )  # fmt: skip
        self._inputs = StepInputs(model, ids, arguments)
        sources = arguments.get("source_ids")
        self._rows = WrittenRows(ids, self._inputs.padding, sources, rules.config.max_length, rules.pad)
        draw, reads = model.head_draw(rules.config), loop.drafting.drafter.reads_places
        self._choice = WordChoice(model.next_word_head, draw, rules.processors, rules.numbers, reads, first)
        self._instead: list[tuple[TextRead, int] | None] = [None] * len(ids)
        self._vocabulary = len(model.get_input_embeddings().weight)

    @property
    def cache(self) -> Any:
        """The KV cache, which holds all words of a single text but its last."""
        return self._inputs.first[self._model._cache_argument]

    def write(self) -> Tensor:
        """The finished texts (B, T)."""
        model, rows = self._model, self._rows
        arguments = self._inputs.first
        arguments["ask"] = self._choice
        cache = arguments[model._cache_argument]
        if hasattr(cache, "activate_past_recording"):
            cache.activate_past_recording()
        outputs = model._prefill(rows.prompts, self._rules.config, arguments, is_first_iteration=True)
        drafts: list[Draft | None] = [None] * len(rows.finished)
        width = 0
        self._choice.begin(rows.written, 1)
        while True:
            accepted, padding = self._judge(drafts, width), self._inputs.padding
            self._inputs.keep(outputs, [width - count for count in accepted], rows.last, rows.finished)
            if not rows.unfinished:
                return rows.sequences()
            begin = time.perf_counter()
            guessing: float | None = None
            if self._asks():
                drafts, width = self._guess(accepted, width, padding)
                guessing = self._seconds_since(begin)
            else:
                drafts, width = [None] * len(rows.finished), 0
            begin = time.perf_counter()
            outputs = model(**self._inputs.of_pass(self._drafted(drafts, width)), return_dict=True)
            self._choice.begin(rows.written, width + 1)
            # without the judging, which costs as much for each word that is written as it does without drafts
            seconds = self._seconds_since(begin)
            self._drafting.length.count_pass(len(rows.unfinished), width + 1, seconds, guessing)

    def _seconds_since(self, begin: float) -> float:
        if self._choice.device.type != "cpu":
            torch.accelerator.synchronize(self._choice.device)
        return time.perf_counter() - begin

    def _judge(self, drafts: Sequence[Draft | None], width: int) -> list[int]:
        """Writes what the pass gave to each text; how many drafted words each accepted."""
        rows, accepted = self._rows, [0] * len(drafts)
        written, going_on = rows.written, rows.unfinished
        words = [[] if draft is None else list(draft.words[:width]) for draft in drafts]
        judged, column = going_on, 0
        while judged:
            steps, contexts = [written[row] + column for row in judged], [rows.context(row) for row in judged]
            right = []
            for row, word in zip(judged, self._choice.words(judged, column, steps, contexts), strict=True):
                rows.add(row, word, self._rules.stops)
                if self._streamer is not None:
                    self._streamer.put(torch.tensor([word]))
                if words[row][column : column + 1] == [word]:
                    accepted[row] += 1
                    right.append(row)
            judged, column = [row for row in right if not rows.finished[row]], column + 1
        for row in going_on:
            count, offered = rows.written[row] - written[row], len(words[row])
            verdict = VerifiedDraft(count, accepted[row], min(count, offered), offered)
            self._drafting.count(self._first + row, written[row], drafts[row], verdict)
            self._instead[row] = _behind(drafts[row], accepted[row])
            accepted[row] = count - 1  # what the last word was written behind stays in the cache
        return accepted

    def _asks(self) -> bool:
        """Whether to guess before the next pass: there is room for a guessed word, and guessing pays."""
        return self._rows.room > 1 and self._drafting.length.asks()

    def _guess(self, accepted: Sequence[int], width: int, padding: list[int]) -> tuple[list[Draft | None], int]:
        """A draft for each text, and how many words of it the next pass reads."""
        rows, length = self._rows, self._drafting.length
        drafts: list[Draft | None] = [None] * len(rows.finished)
        longest = min(length.longest, rows.room - 1)
        going_on = rows.unfinished
        at = torch.tensor([row * (width + 1) + accepted[row] for row in going_on], device=self._choice.device)
        decided = Decided(self._choice.distribution, at, [padding[row] for row in going_on])
        texts = [replace(rows.texts[row], instead=self._instead[row]) for row in going_on]
        found = self._drafting.drafter.drafts(texts, decided, longest)
        known = [self._known(draft) for draft in found]
        for row, draft in zip(going_on, known, strict=True):
            drafts[row] = draft
        return drafts, min(longest, length.chosen(known))

    def _known(self, draft: Draft | None) -> Draft | None:
        """A draft up to the first entry that is no word, such as a place of a picture."""
        if draft is None:
            return None
        end = next((at for at, word in enumerate(draft.words) if not 0 <= word < self._vocabulary), None)
        if end is None:
            return draft
        return Draft(draft.words[:end], draft.evidence, draft.agreed, draft.found) if end else None

    def _drafted(self, drafts: Sequence[Draft | None], width: int) -> Int[Tensor, "B W"]:
        """The drafted words; a text with fewer has its last word in their place, which nobody looks at."""
        last = self._rows.last
        filled = last.expand(-1, width).clone()
        for row, draft in enumerate(drafts):
            words = [] if draft is None else list(draft.words[:width])
            if words:
                filled[row, : len(words)] = torch.tensor(words, dtype=filled.dtype)
        return filled


def _behind(draft: Draft | None, accepted: int) -> tuple[TextRead, int] | None:
    """Where a draft was found, the place behind its accepted words."""
    return None if draft is None or draft.found is None else (draft.found[0], draft.found[1] + accepted)


# -- The texts of a batch while they are written, each with its own number of words.


class WrittenRows:
    """The texts as ``generate`` returns them, and as plain numbers for who guesses.

    Args:
        prompts: What is there (B, T), padding included.
        padding: Places of padding before each text.
        sources: What the head reads beside each text; None: nothing.
        longest: Most places of a text.
        pad: Stands behind finished texts.
    """

    def __init__(
        self, prompts: Int[Tensor, "B T"], padding: Sequence[int], sources: Tensor | None, longest: int, pad: int
    ) -> None:
        self.prompts = prompts
        self._begin = prompts.shape[1]
        self._ids = prompts.new_full((len(prompts), max(longest, self._begin + 1)), pad)
        self._ids[:, : self._begin] = prompts
        self._ends = [self._begin] * len(prompts)
        self._longest = longest
        beside = [[]] * len(prompts) if sources is None else sources.tolist()
        self.texts = [
            KnownText(words[before:], source)
            for words, before, source in zip(prompts.tolist(), padding, beside, strict=True)
        ]
        self.finished = [False] * len(prompts)

    @property
    def unfinished(self) -> list[int]:
        """The rows that go on."""
        return [row for row, done in enumerate(self.finished) if not done]

    @property
    def written(self) -> list[int]:
        """New words of each row."""
        return [end - self._begin for end in self._ends]

    @property
    def room(self) -> int:
        """Words that fit behind every unfinished row."""
        return self._longest - max(self._ends[row] for row in self.unfinished)

    @property
    def last(self) -> Int[Tensor, "B 1"]:
        """The last word of each row."""
        return self._ids[torch.arange(len(self._ids)), torch.tensor(self._ends) - 1][:, None]

    def context(self, row: int) -> Int[Tensor, "1 T"]:
        """What is there of a row."""
        return self._ids[row : row + 1, : self._ends[row]]

    def add(self, row: int, word: int, stops: Any) -> None:
        """Writes a word, and notes whether the text ends with it."""
        self._ids[row, self._ends[row]] = word
        self._ends[row] += 1
        self.texts[row].words.append(word)
        self.finished[row] = bool(stops(self.context(row), None).all())

    def sequences(self) -> Int[Tensor, "B longest"]:
        """All rows, padding behind those that ended earlier."""
        return self._ids[:, : max(self._ends)].clone()


# -- One text of a batch after the other, where the texts cannot go on from different lengths.


def each_row(ids: Tensor, arguments: dict[str, Any]) -> Iterator[tuple[Tensor, dict[str, Any]]]:
    """The words and arguments of each text by itself, with a cache of its own."""
    for row in range(len(ids)):
        yield ids[row : row + 1], {name: _of_row(given, row, len(ids)) for name, given in arguments.items()}


def _of_row(given: Any, row: int, rows: int) -> Any:
    if isinstance(given, Tensor):
        return given[row : row + 1] if given.ndim and len(given) == rows else given
    if isinstance(given, ModelOutput):
        return type(given)(**{name: _of_row(value, row, rows) for name, value in given.items()})
    if isinstance(given, tuple):
        return tuple(_of_row(value, row, rows) for value in given)
    if isinstance(given, Cache):
        own = copy.deepcopy(given)
        if kv_length(own):
            own.batch_select_indices(torch.tensor([row]))
        return own
    return given


def joined(rows: Sequence[Tensor], pad: int) -> Tensor:
    """Texts (1, T) of different lengths as one tensor, with padding behind them."""
    longest = max(row.shape[1] for row in rows)
    whole = rows[0].new_full((len(rows), longest), pad)
    for number, row in enumerate(rows):
        whole[number, : row.shape[1]] = row[0]
    return whole


# -- What cannot be combined with a draft, and why.

_WORD_BY_WORD = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)
_EXTRAS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
_EVERY_STEP = (logits_process.UnbatchedClassifierFreeGuidanceLogitsProcessor,)
"""Processors that run along with every step of their own, and cannot be asked about words that are taken back."""
_BY_ROW = (
    logits_process.PrefixConstrainedLogitsProcessor,
    logits_process.EncoderNoRepeatNGramLogitsProcessor,
    logits_process.EncoderRepetitionPenaltyLogitsProcessor,
)
"""Processors that go by a text's number in the batch; with drafts each text is shown to them alone."""


def expect_draftable(
    model: NextWordModel, texts: int, config: Any, processors: Iterable[Any], streamer: Any, arguments: dict[str, Any]
) -> None:
    """Raises ValueError where words cannot be drafted.

    Args:
        model: Ours.
        texts: How many are written at once.
        config: The configuration of this call of ``generate``.
        processors: What changes scores.
        streamer: Who is handed each word.
        arguments: The model's.
    """
    cache = arguments.get(model._cache_argument)
    mode = config.get_generation_mode()
    if mode not in _WORD_BY_WORD:
        raise ValueError(
            f"draft: must go with greedy search or sampling ({mode.value.replace('_', ' ')} given), where one word "
            "follows the other; beams are reordered and assistants draft by themselves, so leave out one of the two"
        )
    if cache is None or not config.use_cache or isinstance(cache, StaticCache) or not hasattr(cache, "crop"):
        given = "none" if cache is None else type(cache).__name__
        raise ValueError(
            f"draft: needs a cache that can be cropped ({given} given); leave out use_cache and cache_implementation"
        )
    if model._is_stateful:
        raise ValueError(
            f"draft: {type(model.backbone).__name__} keeps a state that read all words before, and rejected ones "
            "cannot be taken out of it; leave out the draft"
        )
    extra = next((name for name in _EXTRAS if getattr(config, name, False)), None)
    if extra is not None:
        raise ValueError(f"draft: {extra} is not kept of drafted words; leave out one of the two")
    if arguments.get("inputs_embeds") is not None:
        raise ValueError("draft: needs the words of the prompt (inputs_embeds given); give input_ids")
    for processor in processors:
        if isinstance(processor, _EVERY_STEP) or (texts > 1 and isinstance(processor, _BY_ROW)):
            one = "" if isinstance(processor, _EVERY_STEP) else ", or write one text at a time"
            raise ValueError(
                f"draft: {type(processor).__name__} must see every step of all texts together; leave it out{one}"
            )
    if streamer is not None and texts > 1:
        raise ValueError(f"draft: a streamer takes one text at a time ({texts} given); leave out the streamer")
