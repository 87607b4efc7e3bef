"""What transformers asks of a model about its weights, answered by the backbone."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nextword.functional.padding import shifted_right
from nextword.model.forward.output_layer import OutputLayer


class Delegation:
    """The part of a wrapped model that passes questions on to its backbone.

    To be mixed into a model with ``backbone``, ``next_word_head``, ``conditioner``, ``objective`` and ``config``.
    """

    backbone: Any
    next_word_head: Any
    conditioner: Any
    objective: Any
    config: Any

    def get_input_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """The backbone's."""
        self.backbone.set_input_embeddings(value)

    def get_output_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """The backbone's."""
        self.backbone.set_output_embeddings(new_embeddings)

    def get_encoder(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's."""
        return self.backbone.get_encoder(*args, **kwargs)

    def get_decoder(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's."""
        return self.backbone.get_decoder(*args, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Any:
        """The backbone's (encoder-decoder models); some have no such method, and shift in their ``forward``."""
        if hasattr(self.backbone, "prepare_decoder_input_ids_from_labels"):
            return self.backbone.prepare_decoder_input_ids_from_labels(labels)
        config = self.backbone.config
        return shifted_right(labels, config.decoder_start_token_id, config.pad_token_id)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> Any:
        """The backbone's; the head follows."""
        embeddings = self.backbone.resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.next_word_head.resized(OutputLayer(self.backbone).size)
        self.config.head = self.next_word_head.config.model_dump()
        if self.conditioner is not None:
            self.conditioner.resized(OutputLayer(self.backbone).size)
        self.vocab_size = self.config.get_text_config(decoder=True).vocab_size
        self.objective.resize_vocabulary(OutputLayer(self.backbone).size)
        return embeddings
