"""Read a model's distributions at once, in steps with a KV cache, or from the backbone without the head."""

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
    """Reads the next-token distributions of ``model`` in ``mode``, a mode of its head. Answers leave out padding."""

    lag = 0
    """1 if the answer at a position scores only the observed next token, and so depends on it. Otherwise 0."""

    def __init__(self, model: Any, mode: str) -> None:
        self.model = model
        self.name = f"mode {mode}"
        self.mode = mode
        self._distributions: WeakKeyDictionary[Batch, NextToken] = WeakKeyDictionary()
        self._log_probs: WeakKeyDictionary[Batch, Tensor] = WeakKeyDictionary()

    def distribution(self, batch: Batch) -> NextToken:
        """The distributions at all tokens of ``batch``, cached as long as ``batch`` exists."""
        if batch not in self._distributions:
            self._distributions[batch] = self._distribution(self.inputs(batch), batch.mask)
        return self._distributions[batch]

    def log_probs(self, batch: Batch) -> Float[Tensor, "N V"]:
        """The log-probabilities at all tokens of ``batch``, cached as long as ``batch`` exists."""
        if batch not in self._log_probs:
            self._log_probs[batch] = self._all_log_probs(batch)
        return self._log_probs[batch]

    def forget(self) -> None:
        """Clear all cached answers."""
        self._distributions.clear()
        self._log_probs.clear()

    def in_steps(
        self, batch: Batch, sizes: tuple[int, ...], order: Int[Tensor, "B"] | None = None
    ) -> Float[Tensor, "N V"]:
        """The log-probabilities at all tokens of ``batch``, read in steps with a KV cache.

        ``sizes`` are the numbers of tokens of the steps. For more steps, the numbers are repeated.
        If ``order`` is given, the cache and the sequences are reordered by these indices after the first step.
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
        """Arguments of the model call for ``batch``, or only for its columns ``start:end``."""
        return inputs_of(self.model, batch, start, end)

    def answer(self, inputs: dict[str, Any], positions: Bool[Tensor, "B T"]) -> Float[Tensor, "N V"]:
        """Log-probabilities at ``positions`` (a mask), from a call with the arguments ``inputs``."""
        return self._distribution(inputs, positions).log_probs()

    def _distribution(self, inputs: dict[str, Any], positions: Bool[Tensor, "B T"]) -> NextToken:
        distribution: NextToken = self.model.distribution(**inputs, positions=positions, mode=self.mode)
        return distribution

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N V"]:
        return self.distribution(batch).log_probs()


class BackboneReader(Reader):
    """Reads the backbone without the head, to measure the rounding that the tolerance for the head must allow."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, "backbone")

    def inputs(self, batch: Batch, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Like ``Reader.inputs``, with only those arguments that the backbone accepts."""
        return backbone_inputs_of(self.model, batch, start, end)

    def answer(self, inputs: dict[str, Any], positions: Bool[Tensor, "B T"]) -> Float[Tensor, "N V"]:
        """Log-probabilities at ``positions`` (a mask), from the logits of the backbone's forward."""
        return log_softmax_(at_least_float32(self.model.backbone(**inputs).logits[positions]))

    def _all_log_probs(self, batch: Batch) -> Float[Tensor, "N V"]:
        return self.answer(self.inputs(batch), batch.mask)


def magnification(reader: Reader, batch: Batch) -> float:
    """Factor by which the head's answers change more than those of the bare backbone; at least 1.

    Changes of answers are measured by changing the input embeddings slightly at random. For example, a cache head
    compares states that have a large norm and are similar to each other, so rounding of the states changes its answers
    more.
    """
    bare = BackboneReader(reader.model)
    moved = [deviation(_with_moved_embeddings(one, batch), one.log_probs(batch)) for one in (reader, bare)]
    return max(1.0, moved[0] / moved[1]) if moved[1] > 0 else 1.0


def _with_moved_embeddings(reader: Reader, batch: Batch) -> Float[Tensor, "N V"]:
    """Answers with small random changes of the input embeddings. The changes are much larger than rounding."""
    step = torch.finfo(reader.model.dtype).eps ** 0.5
    chance = torch.Generator().manual_seed(0)

    def move(module: Any, inputs: Any, embeddings: Tensor) -> Tensor:
        moved: Tensor = embeddings * (1 + step * torch.randn(embeddings.shape, generator=chance).to(embeddings))
        return moved

    hook = reader.model.backbone.get_input_embeddings().register_forward_hook(move)
    try:
        return reader.log_probs(replace(batch))  # a copy, so that no cached answer is returned
    finally:
        hook.remove()


def _steps(length: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    start, number = 0, 0
    while start < length:
        end = min(length, start + sizes[number % len(sizes)])
        yield start, end
        start, number = end, number + 1


def accepts(model: Any, name: str) -> bool:
    """Whether the forward of the model's backbone accepts an argument called ``name``."""
    return name in inspect.signature(model.backbone.forward).parameters


def inputs_of(model: Any, batch: Batch, start: int = 0, end: int | None = None) -> dict[str, Any]:
    """Arguments of a model call for decoder positions ``start`` to ``end``, given a cache with the earlier positions.

    Auxiliary texts are included only if ``start`` is 0; for later calls, they are already in the cache.
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
    """The arguments of ``inputs_of`` that the bare backbone accepts."""
    ids, mask = batch.ids[:, start:end], batch.mask[:, :end].long()
    if batch.source_ids is not None and batch.aux_mask is None:
        assert batch.source_mask is not None
        source = {"input_ids": batch.source_ids, "attention_mask": batch.source_mask.long()}
        return source | {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    if model._cache_argument == "cache_params":  # a state-space layer reads no earlier position
        mask = mask[:, start:]
    inputs = {"input_ids": ids, "attention_mask": mask}
    if accepts(model, "position_ids"):
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)[:, start:]
    return inputs


def new_kv_cache(model: Any) -> Any:
    """An empty KV cache for the model."""
    config = model.config.get_text_config(decoder=True)
    if model.config.is_encoder_decoder:
        # every position of the source is kept, even if the decoder's other layers have windows
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache())
    return DynamicCache(config=config)


_BLOCK = 2**17
"""Number of values compared at a time, 1 MiB in float64. A comparison needs about six such blocks."""


def in_blocks(*answers: Float[Tensor, "N *shape"]) -> Iterator[tuple[Float[Tensor, "n *shape"], ...]]:
    """Yield the same rows of all ``answers``, some rows at a time, so that a comparison needs little memory."""
    rows = max(1, _BLOCK // max(1, answers[0][:1].numel()))
    return zip(*(torch.split(answer, rows) for answer in answers), strict=True)


def deviation(a: Float[Tensor, "*shape"], b: Float[Tensor, "*shape"]) -> float:
    """Largest difference between the log-probabilities ``a`` and ``b``, relative to the values in their row.

    Each difference is divided by the largest finite absolute value in its row of ``a`` and ``b`` if this is above 1,
    because rounding is proportional to the spread of scores that are normalised together. If a value is ``-inf`` or NaN
    in only one of ``a`` and ``b``, the result is infinite. A value that is the same or NaN in both is ignored.
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
    """The largest value. Infinity if one is NaN, and 0 if there are no values."""
    return float(values.nan_to_num(nan=torch.inf, posinf=torch.inf).max()) if values.numel() else 0.0
