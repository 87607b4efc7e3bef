"""Reading distributions off a model in every way: at once, in steps with a KV cache, from the bare backbone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from nextword.checking.probe_texts import Batch
from nextword.distribution import NextToken
from nextword.functional.inplace import log_softmax_
from nextword.functional.probability import at_least_float32


class Reader:
    """Asks a wrapped model for its distribution in one of the head's modes; padding is left out of every answer."""

    lag = 0
    """1 where an answer is about the token that came, and so about one position later than the distribution is."""

    def __init__(self, model: Any, mode: str) -> None:
        self.model = model
        self.name = f"mode {mode}"
        self.mode = mode
        self._distributions: WeakKeyDictionary[Batch, NextToken] = WeakKeyDictionary()
        self._log_probs: WeakKeyDictionary[Batch, Tensor] = WeakKeyDictionary()

    def distribution(self, batch: Batch) -> NextToken:
        """The distribution at every token of the batch; asked twice for one batch, the backbone runs once."""
        if batch not in self._distributions:
            self._distributions[batch] = self._distribution(self.inputs(batch), batch.mask)
        return self._distributions[batch]

    def log_probs(self, batch: Batch) -> Float[Tensor, "N V"]:
        """Its log-probabilities, computed once for a batch."""
        if batch not in self._log_probs:
            self._log_probs[batch] = self._all_log_probs(batch)
        return self._log_probs[batch]

    def forget(self) -> None:
        """Gives back the memory of all answers so far."""
        self._distributions.clear()
        self._log_probs.clear()

    def in_steps(
        self, batch: Batch, sizes: tuple[int, ...], order: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "N V"]:
        """The same log-probabilities with a KV cache, in steps of so many tokens, over and over.

        The cache and the sequences are put into ``order``, where one is given, after the first step.
        """
        kv_cache = new_kv_cache(self.model)
        found: Tensor | None = None
        for number, (start, end) in enumerate(_steps(batch.ids.shape[1], sizes)):
            if number == 1 and order is not None:
                batch = batch.select(order)
                kv_cache.reorder_cache(order)
                assert found is not None
                found = found[order]
            positions = batch.mask[:, start:end]
            kept = {self.model._cache_argument: kv_cache, "use_cache": True}
            inputs = self.inputs(batch, start, end) | kept
            answer = self.answer(inputs, positions)
            if found is None:
                found = answer.new_full((*batch.ids.shape, answer.shape[-1]), torch.nan)
            found[:, start:end][positions] = answer
        assert found is not None
        return found[batch.mask]

    def inputs(self, batch: Batch, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Arguments of the call that asks about a batch, or about some columns of it."""
        return inputs_of(self.model, batch, start, end)

    def answer(self, inputs: dict[str, Any], positions: Bool[Tensor, "B T"]) -> Float[Tensor, "N V"]:
        """Log-probabilities at the positions, asked with these arguments whatever they are."""
        return self._distribution(inputs, positions).log_probs()

    def _distribution(self, inputs: dict[str, Any], positions: Bool[Tensor, "B T"]) -> NextToken:
        distribution: NextToken = self.model.distribution(**inputs, positions=positions, mode=self.mode)
        return distribution

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N V"]:
        return self.distribution(batch).log_probs()


class BackboneReader(Reader):
    """Asks the backbone alone, as if nothing were attached: what rounding does to it is not the head's fault."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, "backbone")

    def inputs(self, batch: Batch, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Arguments that the backbone knows."""
        return backbone_inputs_of(self.model, batch, start, end)

    def answer(self, inputs: dict[str, Any], positions: Bool[Tensor, "B T"]) -> Float[Tensor, "N V"]:
        """The softmax of the scores that its forward returns."""
        return log_softmax_(at_least_float32(self.model.backbone(**inputs).logits[positions]))

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N V"]:
        return self.answer(self.inputs(batch), batch.mask)


def magnification(reader: Reader, batch: Batch) -> float:
    """How many times as far as the bare backbone's a head's answers move, where the input embeddings move a little.

    A cache compares long states that have much in common, so that what rounding does to them shows more in its answers
    than in the backbone's own. At least 1.
    """
    bare = BackboneReader(reader.model)
    moved = [deviation(_with_moved_embeddings(one, batch), one.log_probs(batch)) for one in (reader, bare)]
    return max(1.0, moved[0] / moved[1]) if moved[1] > 0 else 1.0


def _with_moved_embeddings(reader: Reader, batch: Batch) -> Float[Tensor, "N V"]:
    """Answers where each number of the input embeddings is off by chance, well above rounding and yet by little."""
    step = torch.finfo(reader.model.dtype).eps ** 0.5
    chance = torch.Generator().manual_seed(0)

    def move(module: Any, inputs: Any, embeddings: Tensor) -> Tensor:
        moved: Tensor = embeddings * (1 + step * torch.randn(embeddings.shape, generator=chance).to(embeddings))
        return moved

    hook = reader.model.backbone.get_input_embeddings().register_forward_hook(move)
    try:
        return reader.log_probs(replace(batch))  # a copy, of which no answer is kept
    finally:
        hook.remove()


def _steps(length: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    start, number = 0, 0
    while start < length:
        end = min(length, start + sizes[number % len(sizes)])
        yield start, end
        start, number = end, number + 1


def accepts(model: Any, name: str) -> bool:
    """Whether the backbone's forward names this argument."""
    return name in inspect.signature(model.backbone.forward).parameters


def inputs_of(model: Any, batch: Batch, start: int = 0, end: int | None = None) -> dict[str, Any]:
    """Arguments of a call for the decoder's positions ``start`` to ``end``, those before them being in a cache.

    Auxiliary texts are given once: what is needed of them later must be in the cache.
    """
    return backbone_inputs_of(model, batch, start, end) | ({} if start else _auxiliary_inputs_of(batch))


def _auxiliary_inputs_of(batch: Batch) -> dict[str, Tensor]:
    if batch.aux_mask is None:
        return {}
    encoded = {"aux_input_ids": batch.aux_ids} if batch.aux_states is None else {"aux_states": batch.aux_states}
    inputs = encoded | {"aux_attention_mask": batch.aux_mask.long()}
    inputs |= {"source_ids": batch.source_ids, "source_positions": batch.source_positions}
    return {name: given for name, given in inputs.items() if given is not None}


def backbone_inputs_of(model: Any, batch: Batch, start: int = 0, end: int | None = None) -> dict[str, Any]:
    """The part of ``inputs_of`` that the bare backbone knows."""
    ids, mask = batch.ids[:, start:end], batch.mask[:, :end].long()
    if batch.source_ids is not None and batch.aux_mask is None:
        assert batch.source_mask is not None
        source = {"input_ids": batch.source_ids, "attention_mask": batch.source_mask.long()}
        return source | {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    if model._cache_argument == "cache_params":  # state-space layers look back at no position
        mask = mask[:, start:]
    inputs = {"input_ids": ids, "attention_mask": mask}
    if accepts(model, "position_ids"):
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)[:, start:]
    return inputs


def new_kv_cache(model: Any) -> Any:
    """An empty KV cache for the model."""
    config = model.config.get_text_config(decoder=True)
    if model.config.is_encoder_decoder:
        # every position of the source is kept, also where the decoder's own layers have windows
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache())
    return DynamicCache(config=config)


_BLOCK = 2**17
"""Numbers that are compared at once: in float64 a MiB, of which a comparison holds half a dozen."""


def in_blocks(*answers: Float[Tensor, "N *shape"]) -> Iterator[tuple[Float[Tensor, "n *shape"], ...]]:
    """Some rows of each, then the next ones: what is made of a block takes little beside a model's whole answer."""
    rows = max(1, _BLOCK // max(1, answers[0][:1].numel()))
    return zip(*(torch.split(answer, rows) for answer in answers), strict=True)


def deviation(a: Float[Tensor, "*shape"], b: Float[Tensor, "*shape"]) -> float:
    """Largest difference of two sets of log-probabilities, relative to the largest of its row where that is beyond 1.

    Relative to the row, because rounding is proportional to the spread of the scores that were normalised together.
    A value that is ``-inf`` or NaN on one side only is an infinite deviation, on both sides none.
    """
    return max(_deviation(*block) for block in in_blocks(a, b))


def _deviation(a: Float[Tensor, "*shape"], b: Float[Tensor, "*shape"]) -> float:
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    size = torch.maximum(a.abs(), b.abs())
    size = size.masked_fill(~size.isfinite(), 0.0)
    if a.ndim > 1 and a.numel():
        size = size.amax(-1, keepdim=True)
    return largest(((a - b).abs() / size.clamp_min(1.0)).masked_fill(same, 0.0))


def largest(values: Float[Tensor, "*shape"]) -> float:
    """The largest value, infinity where one is NaN, 0 of nothing."""
    return float(values.nan_to_num(nan=torch.inf, posinf=torch.inf).max()) if values.numel() else 0.0
