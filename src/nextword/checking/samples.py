"""The texts of a check, and the batches they are laid out in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Side = Literal["left", "right"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences side by side, padded.

    Args:
        ids: The decoder's tokens.
        mask: False at padding.
        source_ids: Source tokens of an encoder-decoder model.
        source_mask: False at padding.
    """

    ids: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    source_ids: Int[Tensor, "B E"] | None = None
    source_mask: Bool[Tensor, "B E"] | None = None

    @property
    def row(self) -> Int[Tensor, "N"]:
        """Which sequence each token belongs to, padding left out."""
        return self.mask.nonzero(as_tuple=True)[0]

    @property
    def place(self) -> Int[Tensor, "N"]:
        """Place of each token in its own sequence, padding left out and not counted."""
        return (self.mask.long().cumsum(1) - 1)[self.mask]

    def select(self, index: Int[Tensor, "B"]) -> Batch:
        """The sequences in another order."""
        parts = (self.ids, self.mask, self.source_ids, self.source_mask)
        return Batch(*(part if part is None else part[index] for part in parts))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Sample:
    """Some sequences, not padded yet.

    Args:
        name: For messages.
        rows: Tokens of each sequence.
        sources: Source of each sequence, for an encoder-decoder model.
        pad: The token that stands at padding.
    """

    name: str
    rows: tuple[Tensor, ...]
    sources: tuple[Tensor, ...] | None
    pad: int

    def batch(self, side: Side = "right", extra: int = 0, source_extra: int = 0) -> Batch:
        """The sequences in one batch.

        Args:
            side: Where the decoder's padding goes; the source is padded on the right.
            extra: Columns of padding more than the longest sequence needs.
            source_extra: The same for the source.
        """
        ids, mask = _pad(self.rows, self.pad, side, extra)
        if self.sources is None:
            return Batch(ids, mask)
        return Batch(ids, mask, *_pad(self.sources, self.pad, "right", source_extra))

    def with_row(self, index: int, rows: Sequence[Tensor], sources: Sequence[Tensor] | None) -> Sample:
        """Sequence ``index`` as it is, all others from ``rows``."""
        mixed = tuple(own if i == index else other for i, (own, other) in enumerate(zip(self.rows, rows, strict=True)))
        if self.sources is None or sources is None:
            return replace(self, rows=mixed)
        pairs = enumerate(zip(self.sources, sources, strict=True))
        return replace(self, rows=mixed, sources=tuple(own if i == index else other for i, (own, other) in pairs))

    def alone(self, index: int) -> Sample:
        """Sequence ``index`` without the others."""
        sources = None if self.sources is None else (self.sources[index],)
        return replace(self, rows=(self.rows[index],), sources=sources)


def _pad(rows: Sequence[Tensor], pad: int, side: Side, extra: int) -> tuple[Tensor, Tensor]:
    width = max(len(row) for row in rows) + extra
    ids = rows[0].new_full((len(rows), width), pad)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for i, row in enumerate(rows):
        columns = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        ids[i, columns] = row
        mask[i, columns] = True
    return ids, mask


class Words:
    """Random tokens of one model, special ones left out.

    Args:
        model: A wrapped model.
        seed: Of the random numbers; torch's own generators are not touched.
    """

    def __init__(self, model: Any, seed: int) -> None:
        config = model.config.get_text_config(decoder=True)
        weight = model.get_input_embeddings().weight
        self._generator = torch.Generator().manual_seed(seed)
        special: set[int] = set()
        for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            value = getattr(model.config, key, None)
            special.update(value if isinstance(value, list) else [] if value is None else [value])
        known = min(weight.shape[0], model.get_output_embeddings().weight.shape[0])
        ordinary = [token for token in range(known) if token not in special]
        self.ordinary = torch.tensor(ordinary if len(ordinary) > 3 else range(known))
        self.device = weight.device
        self.start: int | None = None
        if model.config.is_encoder_decoder:
            start = getattr(model.config, "decoder_start_token_id", None)
            self.start = start if start is not None else int(self.ordinary[0])
        pad = getattr(model.config, "pad_token_id", None)
        self.pad = pad if isinstance(pad, int) and 0 <= pad < known else int(self.ordinary[-1])
        self.longest = getattr(config, "max_position_embeddings", None)

    def text(self, length: int) -> Tensor:
        """Tokens of which about half occur more than once, so that a memory has something to add up."""
        pool = self.ordinary[torch.randperm(len(self.ordinary), generator=self._generator)[: max(2, length // 2)]]
        return pool[torch.randint(len(pool), (length,), generator=self._generator)].to(self.device)

    def other(self, ids: Tensor) -> Tensor:
        """Another token at every place."""
        order = torch.randperm(len(self.ordinary), generator=self._generator)
        drawn = self.ordinary[order[torch.randint(len(order) - 1, ids.shape, generator=self._generator)]].to(ids.device)
        return torch.where(drawn == ids, self.ordinary[order[-1]].to(ids.device), drawn)

    def sequence(self, text: Tensor) -> Tensor:
        """What the decoder reads: the text itself, after the start token of an encoder-decoder model."""
        return text if self.start is None else torch.cat([text.new_tensor([self.start]), text[:-1]])

    def sample(self, name: str, texts: Sequence[Tensor]) -> Sample:
        """A sample of these texts; for an encoder-decoder model they are source and target at once."""
        sources = None if self.start is None else tuple(texts)
        return Sample(name, tuple(self.sequence(text) for text in texts), sources, self.pad)

    def random_sample(self, length: int) -> Sample:
        """Three sequences, of ``length`` tokens and fewer."""
        lengths = (length, max(1, length - 2), max(1, length // 2))
        sample = self.sample(f"{length} random tokens", [self.text(n) for n in lengths])
        if sample.sources is None:
            return sample
        # sources of another length than the targets, or a mix-up of the two lengths would not show
        return replace(sample, sources=tuple(self.text(n + 2) for n in reversed(lengths)))


def given_sample(words: Words, given: Any, tokenizer: Any, max_length: int) -> Sample:
    """A sample of the caller's texts, each cut to ``max_length`` tokens.

    Args:
        words: For the model's special tokens.
        given: Texts, sequences of token ids, or a tensor of ids (B, T).
        tokenizer: Turns texts into ids.
        max_length: Most tokens of each.

    Raises:
        ValueError: Texts without a tokenizer, nothing at all, an empty text, or ids outside the vocabulary.
    """
    items = [given] if isinstance(given, str) else list(given)
    if not items:
        raise ValueError("check: an empty list of texts given; give at least one, or none for random tokens alone")
    if any(isinstance(item, str) for item in items):
        if tokenizer is None:
            raise ValueError("check: texts given without a tokenizer; pass tokenizer=..., or token ids")
        items = [tokenizer(item).input_ids for item in items]
    texts = [torch.as_tensor(item, dtype=torch.long, device=words.device)[:max_length] for item in items]
    known = int(words.ordinary.max()) + 1
    for number, text in enumerate(texts):
        if text.ndim != 1 or not len(text):
            raise ValueError(f"check: text {number} has shape {tuple(text.shape)}, one or more token ids are needed")
        if int(text.min()) < 0 or int(text.max()) >= max(known, words.pad + 1):
            raise ValueError(f"check: text {number} has a token id outside the vocabulary of {known} tokens")
    return words.sample("the given text", texts)
