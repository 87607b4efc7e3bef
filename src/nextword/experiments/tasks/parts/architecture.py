"""The two architectures of language models, and what a task and a training must know to tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nextword.runtime.pretrained import from_pretrained

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


@dataclass(frozen=True)
class Architecture:
    """One of the two; tasks name the one whose models they train.

    Attributes:
        name: What a person calls it, with its article.
        auto_class: The class of transformers that builds and loads such models.
        has_encoder: Whether ``input_ids`` are a source that an encoder reads, and ``labels`` a target of its own
            length; otherwise labels stand beside the input ids, one for one.
    """

    name: str
    auto_class: str
    has_encoder: bool

    def new(self, config: PretrainedConfig) -> PreTrainedModel:
        """A model with random weights; ValueError where it would not fit into memory."""
        from nextword.runtime.weights.model_size_check import built

        model: PreTrainedModel = built(lambda: self._class().from_config(config), "task.start")
        return model

    def load(self, source: str, **kwargs: Any) -> PreTrainedModel:
        """A pretrained model, from a folder, a GGUF file or the hub."""
        model: PreTrainedModel = from_pretrained(self._class(), source, **kwargs)
        return model

    def _class(self) -> Any:
        import transformers

        return getattr(transformers, self.auto_class)


DECODER_ONLY = Architecture("a decoder-only model", "AutoModelForCausalLM", has_encoder=False)
ENCODER_DECODER = Architecture("an encoder-decoder model", "AutoModelForSeq2SeqLM", has_encoder=True)


def architecture_of(config: PretrainedConfig) -> Architecture:
    """The architecture of the model that a configuration describes."""
    return ENCODER_DECODER if getattr(config, "is_encoder_decoder", False) else DECODER_ONLY


def expect_positions(config: PretrainedConfig, sizes: Mapping[str, int]) -> None:
    """Raises ValueError where a model has fewer positions than a setting asks for.

    Args:
        config: The model's.
        sizes: Tokens that it must see at once, by setting of the task.
    """
    limit = getattr(config, "max_position_embeddings", None)
    for name, size in sizes.items():
        if limit is not None and size > limit:
            raise ValueError(f"task.{name} ({size}) is longer than the {limit} positions of the start model")
