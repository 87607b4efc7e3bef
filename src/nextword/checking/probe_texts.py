"""Texts and batches of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nextword.conditioning.auxiliary_tokenizer import FILL
from nextword.functional.padding import Side, padded
from nextword.runtime.devices import device_of, weight_of

# -- Random auxiliary texts for a conditioned model.

_ROOM = 8
"""Number of an encoder's positions that texts leave free, for padding and before the first token (RoBERTa has two)."""

_MORE_WORDS = 2
"""Number of additional decoder tokens of an auxiliary text, so that a mix-up with encoder tokens is detected."""


@dataclass(frozen=True, eq=False)
class DecoderWords:
    """An auxiliary text as decoder tokens ``ids``, with the ``positions`` of the corresponding encoder tokens."""

    ids: Int[Tensor, "S"]
    positions: Int[Tensor, "S"]


@dataclass(frozen=True, eq=False)
class AuxiliaryText:
    """One auxiliary text as encoder tokens (``ids``) and, if a head copies from it, as decoder tokens (``words``)."""

    ids: Int[Tensor, "A"]
    words: DecoderWords | None


class AuxiliaryWords:
    """Generator of random auxiliary texts, without the encoder's special tokens.

    ``decoder`` are the decoder tokens to sample from, for heads that copy; None: texts have no decoder tokens.
    """

    def __init__(self, encoder: Any, generator: torch.Generator, decoder: Int[Tensor, "K"] | None = None) -> None:
        weight = encoder.get_input_embeddings().weight
        named = {key: value for key, value in vars(encoder.config).items() if key.endswith("_token_id")}
        special = {int(value) for value in named.values() if isinstance(value, int)}
        ordinary = [token for token in range(weight.shape[0]) if token not in special]
        self._ordinary = torch.tensor(ordinary if len(ordinary) > 3 else range(weight.shape[0]), device=weight.device)
        self._decoder = None if decoder is None else decoder.to(weight.device)
        self._generator = generator
        pad = named.get("pad_token_id")
        self.pad = pad if isinstance(pad, int) and 0 <= pad < weight.shape[0] else 0
        limit = getattr(encoder.config, "max_position_embeddings", None)
        self._longest = None if limit is None else max(1, limit - _ROOM)

    def text(self, length: int) -> AuxiliaryText:
        """A random text of ``length`` tokens, at most the encoder's limit. Tokens recur, so that heads can copy."""
        length = length if self._longest is None else min(length, self._longest)
        ids = self._drawn(self._ordinary, length)
        if self._decoder is None:
            return AuxiliaryText(ids, None)
        words = self._drawn(self._decoder, length + _MORE_WORDS)
        positions = torch.randint(length, words.shape, generator=self._generator).sort().values
        return AuxiliaryText(ids, DecoderWords(words, positions.to(words.device)))

    def other(self, text: AuxiliaryText) -> AuxiliaryText:
        """A random text as long as ``text``, without the tokens of ``text`` if the vocabulary is large enough."""
        ids = self._others(self._ordinary, text.ids)
        if text.words is None or self._decoder is None:
            return AuxiliaryText(ids, None)
        return AuxiliaryText(ids, replace(text.words, ids=self._others(self._decoder, text.words.ids)))

    def tokens(self, ids: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Random tokens of the encoder, in a tensor of the shape of ``ids``."""
        return self._drawn(self._ordinary, ids.numel()).view_as(ids)

    def _others(self, ordinary: Int[Tensor, "K"], ids: Int[Tensor, "A"]) -> Int[Tensor, "A"]:
        # the tokens must differ, because a head that copies may use the set of tokens and not their positions
        rest = ordinary[~torch.isin(ordinary, ids)]
        return self._drawn(rest if len(rest) else ordinary, len(ids))

    def _drawn(self, ordinary: Int[Tensor, "K"], length: int) -> Int[Tensor, "A"]:
        order = torch.randperm(len(ordinary), generator=self._generator)[: max(2, length // 2)]
        pool = ordinary[order.to(ordinary.device)]
        return pool[torch.randint(len(pool), (length,), generator=self._generator).to(pool.device)]


# -- The texts of a check, and the batches that are made from them.


_T = TypeVar("_T")

_LONGER = 2
"""Minimum number of tokens by which an auxiliary text is longer than its text."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A padded batch of sequences.

    Args:
        ids: Decoder tokens, (B, T).
        mask: False at padding of ``ids``.
        source_ids: Source tokens of an encoder-decoder model. For a conditioned model with a copying head, the
            auxiliary texts as decoder tokens.
        source_mask: False at padding of the source.
        source_positions: For each of ``source_ids``, the position of the corresponding token in ``aux_ids``.
        aux_ids: Auxiliary texts as encoder tokens.
        aux_mask: False at padding of ``aux_ids``.
        aux_states: Encoded auxiliary texts, which are passed to the model instead of ``aux_ids``.
    """

    ids: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    source_ids: Int[Tensor, "B E"] | None = None
    source_mask: Bool[Tensor, "B E"] | None = None
    source_positions: Int[Tensor, "B E"] | None = None
    aux_ids: Int[Tensor, "B A"] | None = None
    aux_mask: Bool[Tensor, "B A"] | None = None
    aux_states: Float[Tensor, "B A _"] | None = None

    @property
    def row(self) -> Int[Tensor, "N"]:
        """For each token that is not padding, the index of its sequence in the batch."""
        return self.mask.nonzero(as_tuple=True)[0]

    @property
    def position(self) -> Int[Tensor, "N"]:
        """For each token that is not padding, its position in its sequence, not counting padding."""
        return (self.mask.long().cumsum(1) - 1)[self.mask]

    def select(self, index: Int[Tensor, "B"]) -> Batch:
        """A batch of the sequences with the indices ``index``, in this order."""
        parts: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        chosen: dict[str, Any] = {name: part if part is None else part[index] for name, part in parts.items()}
        return Batch(**chosen)


@dataclass(frozen=True, eq=False)
class ProbeSample:
    """Several sequences before padding.

    Args:
        name: Name for messages.
        rows: Tokens of each sequence.
        sources: Source tokens of each sequence, for an encoder-decoder model.
        pad: Padding token.
        auxiliary: Auxiliary text of each sequence, for a conditioned model.
        aux_pad: Padding token of the encoder.
    """

    name: str
    rows: tuple[Tensor, ...]
    sources: tuple[Tensor, ...] | None
    pad: int
    auxiliary: tuple[AuxiliaryText, ...] | None = None
    aux_pad: int = 0

    def batch(self, side: Side = "right", extra: int = 0, source_extra: int = 0) -> Batch:
        """Make one batch, padded on ``side``, with ``extra`` additional columns of padding.

        Source and auxiliary texts are padded on the right, with ``source_extra`` additional columns.
        """
        batch = Batch(*_pad(self.rows, self.pad, side, extra))
        if self.auxiliary is not None:
            return replace(batch, **self._auxiliary_parts(source_extra))
        if self.sources is None:
            return batch
        ids, mask = _pad(self.sources, self.pad, "right", source_extra)
        return replace(batch, source_ids=ids, source_mask=mask)

    def _auxiliary_parts(self, extra: int) -> dict[str, Tensor]:
        assert self.auxiliary is not None
        ids, mask = _pad([text.ids for text in self.auxiliary], self.aux_pad, "right", extra)
        found = {"aux_ids": ids, "aux_mask": mask}
        words = [text.words for text in self.auxiliary if text.words is not None]
        if not words:
            return found
        source_ids, source_mask = _pad([word.ids for word in words], self.pad, "right", extra)
        positions, _ = _pad([word.positions for word in words], FILL["source_positions"], "right", extra)
        return found | {"source_ids": source_ids, "source_mask": source_mask, "source_positions": positions}

    def with_row(
        self,
        index: int,
        rows: Sequence[Tensor],
        sources: Sequence[Tensor] | None = None,
        auxiliary: Sequence[AuxiliaryText] | None = None,
    ) -> ProbeSample:
        """A sample that keeps sequence ``index`` and takes the others from ``rows``, ``sources`` and ``auxiliary``."""
        mixed = replace(self, rows=_mixed(index, self.rows, rows))
        if self.sources is not None and sources is not None:
            mixed = replace(mixed, sources=_mixed(index, self.sources, sources))
        if self.auxiliary is not None and auxiliary is not None:
            mixed = replace(mixed, auxiliary=_mixed(index, self.auxiliary, auxiliary))
        return mixed

    def only(self, *kept: int) -> ProbeSample:
        """A sample with only the sequences whose indices are ``kept``, in this order."""
        sources = None if self.sources is None else tuple(self.sources[index] for index in kept)
        auxiliary = None if self.auxiliary is None else tuple(self.auxiliary[index] for index in kept)
        return replace(self, rows=tuple(self.rows[index] for index in kept), sources=sources, auxiliary=auxiliary)


def _mixed(index: int, own: Sequence[_T], others: Sequence[_T]) -> tuple[_T, ...]:
    return tuple(mine if i == index else other for i, (mine, other) in enumerate(zip(own, others, strict=True)))


def _pad(rows: Sequence[Tensor], pad: int, side: Side, extra: int) -> tuple[Tensor, Tensor]:
    ids, mask = padded(rows, pad, side)
    more = (0, extra) if side == "right" else (extra, 0)
    return nn.functional.pad(ids, more, value=pad), nn.functional.pad(mask, more).bool()


class ProbeWords:
    """Generator of random texts over one vocabulary, without special tokens.

    Args:
        ordinary: Token ids to sample from.
        seed: Seed of the random numbers. Torch's own generators are not changed.
        device: Device of the texts.
        pad: Padding token.
        start: Start token of the targets of an encoder-decoder model. None for a decoder-only model.
        longest: Maximum number of tokens of a text. None: no limit.
    """

    def __init__(
        self,
        ordinary: Int[Tensor, "K"],
        seed: int,
        device: torch.device,
        pad: int,
        start: int | None = None,
        longest: int | None = None,
    ) -> None:
        self.ordinary, self.device, self.pad, self.start, self.longest = ordinary, device, pad, start, longest
        self.auxiliary: AuxiliaryWords | None = None
        self._generator = torch.Generator().manual_seed(seed)

    @classmethod
    def of_model(cls, model: Any, seed: int) -> ProbeWords:
        """Make a generator of texts for ``model``, which may have a nextword head or not."""
        words = model.get_input_embeddings()
        special: set[int] = set()
        for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            value = getattr(model.config, key, None)
            special.update(value if isinstance(value, list) else [] if value is None else [value])
        known = min(words.weight.shape[0], len(weight_of(model.get_output_embeddings())))
        ordinary = [token for token in range(known) if token not in special]
        tokens = torch.tensor(ordinary if len(ordinary) > 3 else range(known))
        start: int | None = None
        if model.config.is_encoder_decoder:
            start = getattr(model.config, "decoder_start_token_id", None)
            start = start if start is not None else int(tokens[0])
        pad = getattr(model.config, "pad_token_id", None)
        pad = pad if isinstance(pad, int) and 0 <= pad < known else int(tokens[-1])
        longest = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        made = cls(tokens, seed, device_of(words), pad, start, longest)
        if model.conditioner is not None:
            decoder = tokens if model.next_word_head.reads_source else None
            made.auxiliary = AuxiliaryWords(model.auxiliary_encoder, made._generator, decoder)
            if made.longest is not None:
                made.longest -= model.conditioner.virtual
        return made

    def text(self, length: int) -> Tensor:
        """A random text of ``length`` tokens, at most ``max(2, length // 2)`` different ones, for heads that copy."""
        pool = self.ordinary[torch.randperm(len(self.ordinary), generator=self._generator)[: max(2, length // 2)]]
        return pool[torch.randint(len(pool), (length,), generator=self._generator)].to(self.device)

    def other(self, ids: Tensor) -> Tensor:
        """For each token in ``ids``, a random token that differs from it."""
        order = torch.randperm(len(self.ordinary), generator=self._generator)
        drawn = self.ordinary[order[torch.randint(len(order) - 1, ids.shape, generator=self._generator)]].to(ids.device)
        return torch.where(drawn == ids, self.ordinary[order[-1]].to(ids.device), drawn)

    def sequence(self, text: Tensor) -> Tensor:
        """The decoder's input: ``text``; for an encoder-decoder model ``start`` and ``text`` without its last token."""
        return text if self.start is None else torch.cat([text.new_tensor([self.start]), text[:-1]])

    def sample(self, name: str, texts: Sequence[Tensor]) -> ProbeSample:
        """Make a sample of ``texts``, each of which is both source and target for an encoder-decoder model.

        For a conditioned model, each text gets a random auxiliary text.
        """
        sources = None if self.start is None else tuple(texts)
        sample = ProbeSample(name, tuple(self.sequence(text) for text in texts), sources, self.pad)
        if self.auxiliary is None:
            return sample
        lengths = [len(text) + _LONGER + i for i, text in enumerate(reversed(texts))]
        auxiliary = tuple(self.auxiliary.text(length) for length in lengths)
        return replace(sample, auxiliary=auxiliary, aux_pad=self.auxiliary.pad)

    def random_sample(self, length: int) -> ProbeSample:
        """A sample of three random sequences, of ``length``, ``length - 2`` and ``length // 2`` tokens (at least 1)."""
        return self.sample_of(length, max(1, length - 2), max(1, length // 2))

    def sample_of(self, *lengths: int) -> ProbeSample:
        """A sample of random sequences with these ``lengths``."""
        sample = self.sample(f"{lengths[0]} random tokens", [self.text(n) for n in lengths])
        if sample.sources is None:
            return sample
        # sources and targets have different lengths, so that a mix-up of the two lengths is detected
        return replace(sample, sources=tuple(self.text(n + 2) for n in reversed(lengths)))


def given_sample(words: ProbeWords, given: Any, tokenizer: Any, max_length: int) -> ProbeSample:
    """A sample of ``given`` (the caller's texts or token ids), each text truncated to ``max_length`` tokens.

    Raises:
        ValueError: If texts are given without a tokenizer, there are no texts, a text has no tokens, or ids are outside
            the vocabulary.
    """
    items = [given] if isinstance(given, str) else list(given)
    if not items:
        raise ValueError("check: texts must be at least one (none given); leave them out for random tokens alone")
    if any(isinstance(item, str) for item in items):
        if tokenizer is None:
            raise ValueError("check: must have a tokenizer for texts (none given); pass tokenizer=..., or token ids")
        items = [tokenizer(item).input_ids for item in items]
    texts = [torch.as_tensor(item, dtype=torch.long, device=words.device)[:max_length] for item in items]
    known = int(words.ordinary.max()) + 1
    for number, text in enumerate(texts):
        if text.ndim != 1 or not len(text):
            raise ValueError(f"check: text {number} must be one or more token ids (shape {tuple(text.shape)} given)")
        if int(text.min()) < 0 or int(text.max()) >= max(known, words.pad + 1):
            raise ValueError(
                f"check: text {number} must have token ids below {known}, the vocabulary size; remove other ids"
            )
    return words.sample("the given text", texts)
