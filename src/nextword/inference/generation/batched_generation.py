"""What a model writes after prompts: rows sorted by length, batch after batch through ``generate``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList, StopStringCriteria

from nextword.functional.padding import padded
from nextword.inference.datastore import remembering
from nextword.inference.generation.generation_passes import (
    GenerationPass,
    GenerationSettings,
    effective_config,
    end_ids,
)
from nextword.inference.generation.row_sampling import RowwiseLoop, batch_seed, text_keys, uniform_numbers
from nextword.inference.generation.samples_files import DIGITS
from nextword.inference.scoring.example_encoding import EncodedExample, auxiliary_inputs
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.target_likelihood import distribution_at_targets
from nextword.inference.scoring.token_facts import TokenFacts, token_facts
from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding
from nextword.model.speculative_decoding.speculative_loop import SpeculativeLoop
from nextword.model.training_modes import inference_mode_of


@dataclass(frozen=True)
class PromptRow:
    """One text to be written.

    Attributes:
        number: Its position in the samples file.
        sample: Which of the prompt's texts it is, from 0.
        key: Seed of all that is drawn for it.
    """

    number: int
    prompt: EncodedExample
    sample: int
    key: int


@dataclass(frozen=True)
class GeneratedText:
    """A text that a model wrote.

    Attributes:
        token_ids: What it wrote, without the end token.
        text: The same as text, special tokens left out.
        sources: Where each token's probability came from, where that was asked for.
    """

    row: PromptRow
    token_ids: list[int]
    text: str
    sources: SourceColumns | None = None

    @property
    def said(self) -> list[int]:
        """The prompt and the text in tokens."""
        return [*self.row.prompt.context, *self.token_ids]


def rows_of(prompts: Sequence[EncodedExample], one: GenerationPass) -> list[PromptRow]:
    """The texts of a pass, in the order of the prompts."""
    keys = text_keys(one.seed, [(prompt.context, prompt.example.auxiliary) for prompt in prompts], one.samples)
    texts = [(prompt, sample) for prompt in prompts for sample in range(one.samples)]
    return [PromptRow(number, *text, key) for number, (text, key) in enumerate(zip(texts, keys, strict=True))]


def length_batches(rows: Sequence[PromptRow], size: int) -> list[list[PromptRow]]:
    """The rows in batches of like length, the longest first: what does not fit into memory fails at once."""
    ordered = sorted(rows, key=lambda row: (-len(row.prompt.context), row.number))
    return [ordered[begin : begin + size] for begin in range(0, len(ordered), size)]


@dataclass(frozen=True)
class BatchedGeneration:
    """Writes the rows of a pass.

    Attributes:
        streamer: Is handed every token of a single row as it is chosen.
        drafting: Who guesses words that one pass judges; None: they are written one by one.
    """

    opened: OpenedModel
    settings: GenerationSettings
    streamer: Any = field(default=None, repr=False)
    drafting: SpeculativeDecoding | None = field(default=None, repr=False)

    def batches(self, rows: Sequence[PromptRow], one: GenerationPass) -> list[list[PromptRow]]:
        """The batches in which the rows are written, the same each time."""
        if self.settings.remember:  # each may retrieve from all before it
            return [[row] for row in rows]
        return length_batches(rows, 1 if one.is_single else self.settings.batch_size)

    def written(
        self, batches: Sequence[Sequence[PromptRow]], one: GenerationPass, said: Iterable[Sequence[int]] = ()
    ) -> Generator[list[GeneratedText]]:
        """The texts of each batch of a pass, in its order. What torch draws elsewhere is not changed.

        Where texts are remembered, finished prompts and texts of the same pass were ``said`` before, in tokens.

        Raises:
            ValueError: ``generate`` refuses its arguments.
        """
        most = self.settings.remember
        growing: contextlib.AbstractContextManager[Callable[[Sequence[int]], int]] = (
            remembering(self.opened, most) if most else contextlib.nullcontext(len)
        )
        with inference_mode_of(self.opened.model), growing as grow:
            for ids in said:
                grow(ids)
            for batch in batches:
                texts = self._batch(batch, one)
                yield texts
                for text in texts:
                    grow(text.said)

    def _batch(self, rows: Sequence[PromptRow], one: GenerationPass) -> list[GeneratedText]:
        model, tokenizer = self.opened.model, self.opened.tokenizer
        prompts = [row.prompt for row in rows]
        inputs = auxiliary_inputs(self.opened)(prompts)
        contexts = [prompt.context for prompt in prompts]
        ids, mask = padded(contexts, 0, side="right" if self.opened.has_encoder else "left")
        config = effective_config(model, one.arguments)
        begin = 1 if self.opened.has_encoder else ids.shape[1]
        with torch.random.fork_rng([model.device] if model.device.type == "cuda" else []):
            torch.manual_seed(batch_seed([row.key for row in rows]))
            try:
                output = model.generate(
                    ids.to(model.device),
                    attention_mask=mask.to(model.device),
                    **inputs,
                    **one.arguments,
                    **self._loop(rows, one),
                    **self._ends(config, begin),
                )
            except TypeError as fault:
                named = [(name, value) for name, value in one.arguments.items() if value is not None and name.islower()]
                given = ", ".join(f"{name}={value}" for name, value in named)
                raise ValueError(f"generate: cannot take {given} ({fault})") from fault
        ends, pad = end_ids(config), one.arguments.get("pad_token_id", config.pad_token_id)
        written = [self._cut(without_end(row, ends, pad)) for row in output[:, begin:].tolist()]
        texts = [str(tokenizer.decode(row, skip_special_tokens=True)) for row in written]
        sources: Sequence[SourceColumns | None] = [None] * len(rows)
        if self.settings.sources:
            targets = [replace(prompt, target=row) for prompt, row in zip(prompts, written, strict=True)]
            sources = source_columns(self.opened, targets, inputs, self.settings.positions)
        return [GeneratedText(*columns) for columns in zip(rows, written, texts, sources, strict=True)]

    def _loop(self, rows: Sequence[PromptRow], one: GenerationPass) -> dict[str, Any]:
        if not one.is_rowwise:
            return {}
        drawn = None if one.seed is None else uniform_numbers([row.key for row in rows], one.new_tokens)
        if self.drafting is not None:
            return {"custom_generate": SpeculativeLoop(self.drafting, drawn, self.streamer)}
        return {"custom_generate": RowwiseLoop(drawn, self.streamer)}

    def _ends(self, config: Any, begin: int) -> dict[str, Any]:
        # made here, because generate loses the tokenizer that it needs for them where it is given a loop
        strings = self._stop_strings(config)
        if not strings:
            return {}
        criterion = _Written(StopStringCriteria(self.opened.tokenizer, strings), begin)
        return {"stop_strings": None, "stopping_criteria": StoppingCriteriaList([criterion])}

    def _stop_strings(self, config: Any) -> list[str]:
        own = config.stop_strings
        return [*self.settings.stop, *([own] if isinstance(own, str) else own or [])]

    def _cut(self, ids: list[int]) -> list[int]:
        """The shortest beginning that has a stop string in it; all where none has."""
        strings = self._stop_strings(self.opened.model.generation_config)

        def stops(count: int) -> bool:
            text = self.opened.tokenizer.decode(ids[:count], skip_special_tokens=False)
            return any(string in text for string in strings)

        if not strings or not stops(len(ids)):
            return ids
        low, high = 0, len(ids)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if stops(middle) else (middle, high)
        return ids[:high]


class _Written(StoppingCriteria):
    # shows another criterion what was written alone: a stop that began in the prompt is none of the text's

    def __init__(self, criterion: StoppingCriteria, begin: int) -> None:
        self._criterion, self._begin = criterion, begin

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> Any:
        return self._criterion(input_ids[:, self._begin :], scores, **kwargs)


def without_end(ids: list[int], ends: Sequence[int], pad: int | None) -> list[int]:
    """The ids up to the first end token, or up to the padding behind them; without end tokens nothing is padded.

    >>> without_end([5, 6, 2, 0, 0], [2], 0), without_end([5, 0, 6, 0, 0], [2], 0), without_end([5, 0], [], 0)
    ([5, 6], [5, 0, 6], [5, 0])
    """
    for place, token in enumerate(ids):
        if token in ends:
            return ids[:place]
    count = len(ids)
    while ends and count and ids[count - 1] == pad:
        count -= 1
    return ids[:count]


# -- Where the tokens of written texts came from, as columns of a samples file.


@dataclass(frozen=True)
class SourceColumns:
    """Of one text, with an entry for each of its tokens.

    Attributes:
        shares: By component, the part of the token's probability that came from it; they add up to 1.
        positions: By component that points at positions, ``[position, part]``, the strongest first. A position
            is an index into the prompt's tokens (an encoder-decoder model has none) followed by the text's own; -1 is
            the start token. Of a component that looks at a source or an auxiliary text, it is an index into that text's
            tokens.
    """

    shares: dict[str, list[float]]
    positions: dict[str, list[list[tuple[int, float]]]]

    def columns(self) -> dict[str, Any]:
        """As columns of a samples file; no ``positions`` of a head that points at none."""
        return {"shares": self.shares, **({"positions": self.positions} if self.positions else {})}


def source_columns(
    opened: OpenedModel, texts: Sequence[EncodedExample], inputs: Mapping[str, Any], positions: int
) -> list[SourceColumns]:
    """Of each text, which has what the model wrote as its target, from one pass over all; one may be empty."""
    distribution, ids = distribution_at_targets(opened.model, texts, inputs)
    facts = token_facts(distribution, ids, positions=positions)
    texts_read = distribution.positions_in()
    columns, begin = [], 0
    for text in texts:
        rows = slice(begin, begin + len(text.target))
        begin = rows.stop
        before = 1 if opened.has_encoder else text.specials  # a decoder begins with a start token of its own
        columns.append(_of_text(facts, rows, {name: before * (of == "text") for name, of in texts_read.items()}))
    return columns


def _of_text(facts: TokenFacts, rows: slice, specials: Mapping[str, int]) -> SourceColumns:
    shares = {name: [round(one, DIGITS) for one in share[rows].tolist()] for name, share in facts.shares.items()}
    positions = {}
    for name, strongest in facts.positions.items():
        if strongest.documents is not None:  # in a store, and not in a text beside the sample
            continue
        tokens = zip(strongest.at[rows].tolist(), strongest.share[rows].tolist(), strict=True)
        positions[name] = [
            [(at - specials[name], round(share, DIGITS)) for at, share in zip(*token, strict=True) if at >= 0]
            for token in tokens
        ]
    return SourceColumns(shares, positions)
