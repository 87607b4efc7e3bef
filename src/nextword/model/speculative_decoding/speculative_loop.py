"""Speculative decoding in ``generate``: draft tokens, verify them in one pass, and keep the accepted tokens."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import StaticCache
from transformers.cache_utils import Cache
from transformers.generation import logits_process
from transformers.generation.configuration_utils import GenerationMode
from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput
from transformers.utils.generic import ModelOutput

from nextword.functional.copy_scores import TextRead
from nextword.functional.padding import aligned_at_end, known_at_end
from nextword.model.head_cache.kv_cache import align, can_align, kv_length
from nextword.model.speculative_decoding.drafter import Decided, Draft, KnownText
from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding
from nextword.model.speculative_decoding.token_choice import RandomNumbers, TokenChoice

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class SpeculativeLoop:
    """Greedy search and sampling with drafts. Transformers' ``generate`` accepts an instance as ``custom_generate``.

    Attributes:
        decoding: Drafter, draft length and statistics.
        uniform: Numbers in [0, 1) for sampling, one per text and new token; None: torch's generator makes them.
        streamer: Object that receives each new token, but not the prompt; None: no streamer.
    """

    decoding: SpeculativeDecoding
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
        """Generates the texts; transformers' ``generate`` calls this method instead of its own loop."""
        expect_draftable(model, len(input_ids), generation_config, logits_processor, self.streamer, model_kwargs)
        self.decoding.drafter.expect_fit(model)
        self.decoding.verified = []
        numbers = RandomNumbers(len(input_ids), self.uniform) if generation_config.do_sample else None
        rules = Rules(list(logits_processor), stopping_criteria, generation_config, numbers)
        if len(input_ids) == 1 or can_write_together(model, model_kwargs):
            run = SpeculativeRun(self, model, input_ids, rules, model_kwargs)
            sequences, cache = run.write(), run.cache
        else:
            texts = [
                SpeculativeRun(self, model, ids, rules, given, first=row).write()[0]
                for row, (ids, given) in enumerate(_each_row(input_ids, model_kwargs))
            ]
            sequences, cache = pad_sequence(texts, batch_first=True, padding_value=rules.pad), None
        if self.streamer is not None:
            self.streamer.end()
        if not generation_config.return_dict_in_generate:
            return sequences
        kind: Any = GenerateEncoderDecoderOutput if model.config.is_encoder_decoder else GenerateDecoderOnlyOutput
        return kind(sequences=sequences, past_key_values=cache if len(sequences) == 1 else None)


@dataclass(frozen=True)
class Rules:
    """Logits processors, stopping criteria, configuration and random numbers of a call of ``generate``.

    ``numbers`` are the random numbers for sampling; None: greedy search.
    """

    processors: list[Any]
    stops: Any
    config: Any
    numbers: RandomNumbers | None

    @property
    def pad(self) -> int:
        """Id of the padding token after finished texts; 0 if ``generate`` has none."""
        pad = getattr(self.config, "_pad_token_tensor", None)
        return 0 if pad is None else int(pad)


class SpeculativeRun:
    """Generates the texts of one batch.

    Args:
        loop: The settings of this call.
        model: The model with its head.
        ids: Prompts (B, T), or the start tokens of an encoder-decoder model.
        rules: Processors, stopping criteria and random numbers.
        arguments: Further arguments of the model's forward, including the KV cache.
        first: Index in the batch of the first text of ``ids``; 0 unless the batch is generated one text at a time.
    """

    def __init__(
        self, loop: SpeculativeLoop, model: NextWordModel, ids: Int[Tensor, "B T"], rules: Rules,
        arguments: dict[str, Any], first: int = 0,
    ) -> None:  # fmt: skip
        self._decoding, self._streamer, self._model, self._rules, self._first = (
            loop.decoding, loop.streamer, model, rules, first,
        )  # fmt: skip
        self._inputs = StepInputs(model, ids, arguments)
        sources = arguments.get("source_ids")
        self._rows = WrittenRows(ids, self._inputs.padding, sources, rules.config.max_length, rules.pad)
        draw, reads = model.head_draw(rules.config), loop.decoding.drafter.reads_positions
        self._choice = TokenChoice(model.next_word_head, draw, rules.processors, rules.numbers, reads, first)
        self._instead: list[tuple[TextRead, int] | None] = [None] * len(ids)
        self._vocabulary = len(model.get_input_embeddings().weight)

    @property
    def cache(self) -> Any:
        """The KV cache. If the batch is a single text, the cache holds all its tokens except the last."""
        return self._inputs.arguments[self._model._cache_argument]

    def write(self) -> Tensor:
        """Generates the texts, and returns them with their prompts (B, T)."""
        model, rows, length = self._model, self._rows, self._decoding.length
        arguments = self._inputs.arguments
        arguments["ask"] = self._choice
        outputs = model._prefill(rows.prompts, self._rules.config, arguments, is_first_iteration=True)
        # sliding windows and convolutions keep old values for a crop only from here on: a prompt is never cropped
        if hasattr(self.cache, "activate_past_recording"):
            self.cache.activate_past_recording()
        drafts: list[Draft | None] = [None] * len(rows.finished)
        width = 0
        self._choice.begin(rows.written, 1)
        while True:
            accepted, padding = self._verify(drafts, width), self._inputs.padding
            self._inputs.keep(outputs, [width - count for count in accepted], rows.last, rows.finished)
            if not rows.unfinished:
                return rows.sequences()
            begin = time.perf_counter()
            guessing: float | None = None
            if rows.room > 1 and length.asks():
                drafts, width = self._guess(accepted, width, padding)
                guessing = self._seconds_since(begin)
            else:
                drafts, width = [None] * len(rows.finished), 0
            begin = time.perf_counter()
            outputs = model(**self._inputs.of_pass(self._drafted(drafts, width)), return_dict=True)
            self._choice.begin(rows.written, width + 1)
            # without the time of verification, which per generated token is the same without drafts
            seconds = self._seconds_since(begin)
            length.count_pass(len(rows.unfinished), width + 1, seconds, guessing)

    def _seconds_since(self, begin: float) -> float:
        if self._choice.device.type != "cpu":
            torch.accelerator.synchronize(self._choice.device)
        return time.perf_counter() - begin

    def _verify(self, drafts: Sequence[Draft | None], width: int) -> list[int]:
        """Appends the tokens of a pass to each text; returns the number of accepted draft tokens per text."""
        rows, accepted = self._rows, [0] * len(drafts)
        before, going_on = rows.written, rows.unfinished
        drafted = [[] if draft is None else list(draft.tokens[:width]) for draft in drafts]
        verified, column = going_on, 0
        while verified:
            steps, contexts = [before[row] + column for row in verified], [rows.context(row) for row in verified]
            right = []
            for row, token in zip(verified, self._choice.tokens(verified, column, steps, contexts), strict=True):
                rows.add(row, token, self._rules.stops)
                if self._streamer is not None:
                    self._streamer.put(torch.tensor([token]))
                if drafted[row][column : column + 1] == [token]:
                    accepted[row] += 1
                    right.append(row)
            verified, column = [row for row in right if not rows.finished[row]], column + 1
        for row in going_on:
            draft, written = drafts[row], rows.written[row] - before[row]
            self._decoding.count(
                self._first + row, before[row], draft, offered=len(drafted[row]), accepted=accepted[row],
                written=written,
            )  # fmt: skip
            found = None if draft is None else draft.found
            self._instead[row] = None if found is None else (found[0], found[1] + accepted[row])
            accepted[row] = written - 1  # all new tokens but the last stay in the cache
        return accepted

    def _guess(self, accepted: Sequence[int], width: int, padding: list[int]) -> tuple[list[Draft | None], int]:
        """A draft for each text, and the number of drafted tokens in the next pass."""
        rows, length = self._rows, self._decoding.length
        drafts: list[Draft | None] = [None] * len(rows.finished)
        longest = min(length.longest, rows.room - 1)
        going_on = rows.unfinished
        at = torch.tensor([row * (width + 1) + accepted[row] for row in going_on], device=self._choice.device)
        decided = Decided(self._choice.distribution, at, [padding[row] for row in going_on])
        texts = [replace(rows.texts[row], instead=self._instead[row]) for row in going_on]
        known = [self._known(draft) for draft in self._decoding.drafter.drafts(texts, decided, longest)]
        for row, draft in zip(going_on, known, strict=True):
            drafts[row] = draft
        return drafts, min(longest, length.chosen(known))

    def _known(self, draft: Draft | None) -> Draft | None:
        """A draft up to the first entry that is not a token, for instance an image position."""
        if draft is None:
            return None
        end = next((at for at, token in enumerate(draft.tokens) if not 0 <= token < self._vocabulary), None)
        if end is None:
            return draft
        return replace(draft, tokens=draft.tokens[:end]) if end else None

    def _drafted(self, drafts: Sequence[Draft | None], width: int) -> Int[Tensor, "B W"]:
        """The draft tokens (B, ``width``). A shorter draft is filled with the text's last token, which is ignored."""
        filled = self._rows.last.expand(-1, width).clone()
        for row, draft in enumerate(drafts):
            if width and draft is not None:
                tokens = torch.tensor(list(draft.tokens[:width]), dtype=filled.dtype)
                filled[row, : len(tokens)] = tokens
        return filled


# -- The texts of a batch during generation, each with its own number of tokens.


class WrittenRows:
    """The prompts and new tokens of a batch, as a tensor for ``generate`` and as lists (``texts``) for the drafter.

    Args:
        prompts: Prompts (B, T), padding included.
        padding: Number of padding positions before each text.
        sources: Tokens of each text's source, which the head reads; None: no source.
        longest: Maximum number of positions of a text, with its padding and prompt.
        pad: Padding token after finished texts.
    """

    def __init__(
        self, prompts: Int[Tensor, "B T"], padding: Sequence[int], sources: Tensor | None, longest: int, pad: int
    ) -> None:
        self.prompts = prompts
        self._begin = prompts.shape[1]
        room = max(longest, self._begin + 1)  # like generate, the loop adds at least one token to every prompt
        self._ids = prompts.new_full((len(prompts), room), pad)
        self._ids[:, : self._begin] = prompts
        self._ends = [self._begin] * len(prompts)
        self._longest = longest
        beside = [[]] * len(prompts) if sources is None else sources.tolist()
        self.texts = [
            KnownText(tokens[before:], source)
            for tokens, before, source in zip(prompts.tolist(), padding, beside, strict=True)
        ]
        self.finished = [False] * len(prompts)

    @property
    def unfinished(self) -> list[int]:
        """Indices of the unfinished texts."""
        return [row for row, done in enumerate(self.finished) if not done]

    @property
    def written(self) -> list[int]:
        """Number of new tokens of each text."""
        return [end - self._begin for end in self._ends]

    @property
    def room(self) -> int:
        """Number of tokens that can still be appended to every unfinished text."""
        return self._longest - max(self._ends[row] for row in self.unfinished)

    @property
    def last(self) -> Int[Tensor, "B 1"]:
        """The last token of each text."""
        return self._ids[torch.arange(len(self._ids)), torch.tensor(self._ends) - 1][:, None]

    def context(self, row: int) -> Int[Tensor, "1 T"]:
        """The tokens of text ``row`` so far, padding included."""
        return self._ids[row : row + 1, : self._ends[row]]

    def add(self, row: int, token: int, stops: Any) -> None:
        """Appends ``token`` to text ``row``, and records whether the stopping criteria ``stops`` end the text."""
        self._ids[row, self._ends[row]] = token
        self._ends[row] += 1
        self.texts[row].tokens.append(token)
        self.finished[row] = bool(stops(self.context(row), None).all())

    def sequences(self) -> Int[Tensor, "B longest"]:
        """All texts, with padding after shorter ones."""
        return self._ids[:, : max(self._ends)].clone()


# -- Generation of one text at a time, for a model whose texts cannot have different lengths in one batch.


def _each_row(ids: Tensor, arguments: dict[str, Any]) -> Iterator[tuple[Tensor, dict[str, Any]]]:
    """The tokens and arguments of each text separately, with its own cache."""
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


# -- What cannot be combined with drafts, and why.

_TOKEN_BY_TOKEN = (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)
_EXTRAS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
_EVERY_STEP = (logits_process.UnbatchedClassifierFreeGuidanceLogitsProcessor,)
"""Processors that keep a state per step. Their tokens cannot be rejected afterwards."""
_BY_ROW = (
    logits_process.PrefixConstrainedLogitsProcessor,
    logits_process.EncoderNoRepeatNGramLogitsProcessor,
    logits_process.EncoderRepetitionPenaltyLogitsProcessor,
)
"""Processors that use a text's index in the batch. With drafts they get one text at a time."""


def expect_draftable(
    model: NextWordModel, texts: int, config: Any, processors: Iterable[Any], streamer: Any, arguments: dict[str, Any]
) -> None:
    """Raises ValueError if ``model`` or the other arguments of ``generate`` do not support drafts."""
    cache = arguments.get(model._cache_argument)
    mode = config.get_generation_mode()
    if mode not in _TOKEN_BY_TOKEN:
        raise ValueError(
            f"draft: must be used with greedy search or sampling ({mode.value.replace('_', ' ')} given); "
            "beams are reordered and assistants draft by themselves, so leave out one of the two"
        )
    if cache is None or not config.use_cache or isinstance(cache, StaticCache) or not hasattr(cache, "crop"):
        given = "none" if cache is None else type(cache).__name__
        raise ValueError(
            f"draft: needs a cache that can be cropped ({given} given); leave out use_cache and cache_implementation"
        )
    if model._is_stateful:
        raise ValueError(
            f"draft: {type(model.backbone).__name__} has a recurrent state, from which rejected tokens cannot be "
            "removed; leave out the draft"
        )
    extra = next((name for name in _EXTRAS if getattr(config, name, False)), None)
    if extra is not None:
        raise ValueError(f"draft: must be used without {extra}, which draft tokens do not have; leave out one")
    if arguments.get("inputs_embeds") is not None:
        raise ValueError("draft: needs the token ids of the prompt (inputs_embeds given); give input_ids")
    for processor in processors:
        if isinstance(processor, _EVERY_STEP) or (texts > 1 and isinstance(processor, _BY_ROW)):
            one = "" if isinstance(processor, _EVERY_STEP) else ", or write one text at a time"
            raise ValueError(
                f"draft: {type(processor).__name__} must see every step of all texts together; leave it out{one}"
            )
    if streamer is not None and texts > 1:
        raise ValueError(f"draft: a streamer takes one text at a time ({texts} given); leave out the streamer")


# -- The model's inputs in each pass: tokens, mask and positions, and the KV cache.
#
# The texts of a batch accept different numbers of tokens. The rejected tokens of a text are removed from the cache.
# Shorter texts are then moved to the end of the cache, so that all padding is before them, as in a batch of prompts.

_PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
"""Arguments of forward with one entry per token. They do not move with the tokens when a batch is realigned."""


def can_write_together(model: NextWordModel, arguments: dict[str, Any]) -> bool:
    """Whether texts can be generated in one batch, although different numbers of their draft tokens are accepted.

    This needs a KV cache whose layers only grow, a backbone with 2-D position ids or relative positions, no soft prefix
    and no token type ids. Otherwise the texts are generated one at a time.
    """
    if model.conditioner is not None and model.conditioner.virtual:
        return False
    if not can_align(arguments[model._cache_argument]) or any(arguments.get(name) is not None for name in _PER_TOKEN):
        return False
    if model.config.is_encoder_decoder:
        return hasattr(model.config.get_text_config(decoder=True), "relative_attention_num_buckets")
    positions = arguments.get("position_ids")
    return positions is None or positions.ndim == 2


class StepInputs:
    """Turns the ``arguments`` of ``generate`` for the tokens ``ids`` into the arguments of ``forward`` in each pass."""

    def __init__(self, model: NextWordModel, ids: Int[Tensor, "B T"], arguments: dict[str, Any]) -> None:
        side = "decoder_" if model.config.is_encoder_decoder else ""
        self._mask, self._positions = f"{side}attention_mask", f"{side}position_ids"
        self._model, self._ids, self.arguments = model, ids, dict(arguments)
        self._drafted = 0
        mask = self.arguments.get(self._mask)
        if mask is None and len(ids) > 1:
            mask = self.arguments[self._mask] = torch.ones_like(ids)
        missing = torch.zeros(len(ids), dtype=torch.long) if mask is None else (mask.cumsum(-1) == 0).sum(-1)
        self.padding: list[int] = missing.tolist()

    def of_pass(self, drafted: Int[Tensor, "B W"]) -> dict[str, Any]:
        """Returns the arguments of a pass over each text's last token and its draft tokens ``drafted``."""
        self._drafted = drafted.shape[1]
        self._ids = torch.cat([self._ids, drafted], 1)
        prepared: dict[str, Any] = self._model.prepare_inputs_for_generation(
            self._ids,
            next_sequence_length=self._drafted + 1,
            is_first_iteration=False,
            **self._grown(self.arguments, {}, self._drafted),
        )
        prepared["logits_to_keep"] = self._drafted + 1
        return prepared

    def keep(self, outputs: Any, dropped: Sequence[int], last: Int[Tensor, "B 1"], finished: Sequence[bool]) -> None:
        """Removes the last ``dropped[i]`` tokens of text i, which were rejected, from the cache in ``outputs``.

        The next pass begins with the tokens ``last``, which are not in the cache yet. Finished texts are masked.
        """
        going_on = [row for row, done in enumerate(finished) if not done] or list(range(len(finished)))
        least = min(dropped[row] for row in going_on)
        if all(dropped[row] == least for row in going_on):
            outputs[self._model._cache_argument].crop(-least)
            self._ids = self._ids[:, : self._ids.shape[1] - least]
            arguments = self._grown(self.arguments, outputs, self._drafted - least)
        else:
            arguments = self._aligned(self._grown(self.arguments, outputs, self._drafted), dropped, going_on)
        if len(going_on) < len(finished):
            done = torch.tensor(finished, device=self._ids.device)[:, None]
            for name in (self._mask, self._positions):  # otherwise positions would exceed those of the backbone
                if arguments.get(name) is not None:
                    arguments[name] = arguments[name].masked_fill(done, 0)
        self.arguments = self._grown(arguments, outputs, 1)
        self._ids = torch.cat([self._ids, last], 1)

    def _aligned(self, arguments: dict[str, Any], dropped: Sequence[int], going_on: Sequence[int]) -> dict[str, Any]:
        """The arguments after all texts are moved to the same end, as in the cache."""
        total = self._ids.shape[1]
        lengths = [total - gone - before for gone, before in zip(dropped, self.padding, strict=True)]
        length = max(lengths[row] for row in going_on)
        gone = torch.tensor(dropped, device=self._ids.device)
        align(arguments[self._model._cache_argument], gone, length)
        self._ids = aligned_at_end(self._ids, gone, length)
        self.padding = [max(0, length - held) for held in lengths]
        mask = arguments[self._mask]
        moved = arguments | {self._mask: known_at_end(mask.bool(), gone, length).to(mask.dtype)}
        if arguments.get(self._positions) is not None:
            moved[self._positions] = aligned_at_end(arguments[self._positions], gone, length)
        return moved

    def _grown(self, arguments: dict[str, Any], outputs: Any, count: int) -> dict[str, Any]:
        """The arguments for ``count`` more tokens per text, with the cache of the last pass."""
        update = self._model._update_model_kwargs_for_generation
        seq2seq = self._model.config.is_encoder_decoder
        if count:
            grown: dict[str, Any] = update(outputs, dict(arguments), is_encoder_decoder=seq2seq, num_new_tokens=count)
            return grown
        name = self._model._cache_argument
        return {**arguments, name: outputs[name]} if name in outputs else dict(arguments)
