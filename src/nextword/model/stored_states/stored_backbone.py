"""A backbone that looks up stored states of known rows instead of computing them, with the model's output layer.

Heads, objectives and trainers use it like any other backbone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, Seq2SeqLMOutput

from nextword.functional.padding import shifted_right, stacked
from nextword.model.forward.output_layer import adjustments_of
from nextword.model.stored_states.state_files import RowStates, StoredStates, TokenRow

OUTPUT_LAYER = "output_layer.safetensors"
"""File with the embeddings and the output layer of the model, in the folder of the states."""

_INPUT, _OUTPUT, _BIAS, _LOGITS_BIAS = "input_embedding", "output_embedding", "output_bias", "final_logits_bias"


class UnknownRowError(ValueError):
    """The states of a text were requested, but are not stored."""


class StoredBackbone(PreTrainedModel):
    """A language model with stored states in place of its layers.

    Configuration, input embedding and output layer are those of the model whose states are stored. For the rows of
    ``store``, the backbone returns the scores and hidden states of this model, up to the rounding of the stored states.

    Args:
        config: The model's configuration.
        store: The rows and their states.
        weights: The weights that ``output_weights`` returns for the model.
    """

    supports_gradient_checkpointing = False
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True  # no attention runs, so any setting is accepted

    def __init__(self, config: Any, store: StoredStates, weights: Mapping[str, Tensor]) -> None:
        super().__init__(config)
        self.store = store
        self.generation_config = GenerationConfig.from_model_config(config)  # models that generate have this attribute
        vocabulary, width = weights[_INPUT].shape
        with torch.device("meta"):
            output = weights.get(_OUTPUT, weights[_INPUT])
            self.output_layer = nn.Linear(output.shape[1], output.shape[0], bias=_BIAS in weights)  # sets the dtype
            self.input_embedding = nn.Embedding(vocabulary, width)
        self.input_embedding.weight = nn.Parameter(weights[_INPUT])
        self.output_layer.weight = nn.Parameter(weights[_OUTPUT]) if _OUTPUT in weights else self.input_embedding.weight
        self._tied_weights_keys = {} if _OUTPUT in weights else {"output_layer.weight": "input_embedding.weight"}
        self.all_tied_weights_keys = self._tied_weights_keys  # what a model around this one looks at
        if _BIAS in weights:
            self.output_layer.bias = nn.Parameter(weights[_BIAS])
        if _LOGITS_BIAS in weights:
            self.register_buffer(_LOGITS_BIAS, weights[_LOGITS_BIAS])

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return True  # the cache stays empty, but the head cache of a pass is attached to it

    @classmethod
    def open(cls, folder: str | Path, dtype: torch.dtype | None = None) -> StoredBackbone:
        """Opens the store in ``folder`` as a backbone with weights in ``dtype``; None: the precision of the model.

        An untied input embedding keeps the model's precision. Few objectives read it, and it is memory-mapped, so only
        the embeddings in use are in memory.

        Raises:
            ValueError: If the folder is not a finished store.
        """
        store = StoredStates(folder)
        weights = load_file(Path(folder) / OUTPUT_LAYER)
        for name in weights.keys() - ({_INPUT} if _OUTPUT in weights else set()):
            weights[name] = weights[name].to(dtype or weights[name].dtype)
        return cls(AutoConfig.from_pretrained(folder), store, weights)

    def get_input_embeddings(self) -> Any:
        """The input embedding of the model."""
        return self.input_embedding

    def get_output_embeddings(self) -> Any:
        """The output layer of the model."""
        return self.output_layer

    @cached_property
    def _decoder_inputs(self) -> Callable[[Tensor], Tensor]:
        return decoder_inputs_of(self.config)

    def prepare_decoder_input_ids_from_labels(self, labels: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """Makes the decoder's inputs from ``labels``, in the same way as the model's class (encoder-decoder models)."""
        return self._decoder_inputs(labels)

    def forward(
        self,
        input_ids: Int[Tensor, "B T"] | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Int[Tensor, "B T"] | None = None,
        decoder_attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool = True,
    ) -> Any:
        """Returns scores and hidden states of stored rows. They are padded on the right, also if the inputs are not.

        Raises:
            UnknownRowError: If the states of a row are not stored, or ``past_key_values`` has tokens.
        """
        if past_key_values is not None and past_key_values.get_seq_length():
            raise UnknownRowError(
                "states: must be read for whole texts, without a KV cache; to generate, load the model itself"
            )
        sources: list[tuple[int, ...]] = [()] * len(input_ids) if input_ids is not None else []
        ids, mask = input_ids, attention_mask
        if self.config.is_encoder_decoder:
            sources, ids, mask = _texts(input_ids, attention_mask), decoder_input_ids, decoder_attention_mask
        rows = [TokenRow(text, source) for text, source in zip(_texts(ids, mask), sources, strict=True)]
        found = [self._of(row) for row in rows]
        weight = self.output_layer.weight
        states = _padded([one.states for one in found], weight)
        scores = self.output_layer(states)
        for adjustment in adjustments_of(self):
            scores = adjustment.change(scores, None)
        layers = _padded([one.layers for one in found], weight).unbind(2)[::-1] or (
            states / self.store.manifest.origin.state_scale,
        )
        if not self.config.is_encoder_decoder:
            return CausalLMOutputWithPast(logits=scores, hidden_states=layers)
        source_states = _padded([one.source for one in found], weight)
        return Seq2SeqLMOutput(logits=scores, decoder_hidden_states=layers, encoder_last_hidden_state=source_states)

    def _of(self, row: TokenRow) -> RowStates:
        found = self.store.of(row)
        if found is None:
            raise UnknownRowError(
                f"states: must contain every text that is read ('{self.store.folder}' lacks one of {len(row.ids)} "
                f"tokens that begins with {list(row.ids[:5])}); build a store of this data with these "
                "task settings"
            )
        return found


def decoder_inputs_of(config: Any) -> Callable[[Tensor], Tensor]:
    """Returns the function that makes decoder inputs from labels for models with this ``config``; no weights are read.

    Most models put a start token before the labels; mBART puts the last token of the labels there.
    """
    if type(config) in AutoModelForSeq2SeqLM._model_mapping:
        with torch.device("meta"):
            model: Any = AutoModelForSeq2SeqLM.from_config(config)
        if hasattr(model, "prepare_decoder_input_ids_from_labels"):
            return model.prepare_decoder_input_ids_from_labels
    return lambda labels: shifted_right(labels, config.decoder_start_token_id, config.pad_token_id)


def _texts(ids: Tensor | None, mask: Tensor | None) -> list[tuple[int, ...]]:
    # the tokens of each row, without padding
    if ids is None:
        raise ValueError("states: must be read by token ids (embeddings or encoder outputs given); pass input_ids")
    if mask is None:
        return [tuple(row) for row in ids.tolist()]
    return [tuple(row[kept].tolist()) for row, kept in zip(ids, mask.bool(), strict=True)]


def _padded(rows: list[Float[Tensor, "_T ..."]], like: Tensor) -> Float[Tensor, "B T ..."]:
    return stacked([row.to(like) for row in rows], 0)


def output_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Maps names to the weights of ``model`` that a ``StoredBackbone`` needs; tied weights occur once."""
    inputs: Any = model.get_input_embeddings()
    output: Any = model.get_output_embeddings()
    weights = {_INPUT: inputs.weight}
    if output.weight is not inputs.weight:
        weights[_OUTPUT] = output.weight
    if output.bias is not None:
        weights[_BIAS] = output.bias
    bias: Any = getattr(model, _LOGITS_BIAS, None)
    if bias is not None:
        weights[_LOGITS_BIAS] = bias
    return {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}


def save_output_layer(model: PreTrainedModel, folder: Path) -> None:
    """Writes configuration, embedding and output layer of ``model`` to ``folder``, for ``StoredBackbone.open``."""
    model.config.save_pretrained(folder)
    save_file(output_weights(model), folder / OUTPUT_LAYER)
