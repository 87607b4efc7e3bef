"""The parts that a wrapped model has: what every chapter about it speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel

from nextword.heads import Head
from nextword.model.configuration import NextWordConfig
from nextword.objectives import Objective


class WrappedModel(PreTrainedModel):
    """An unmodified backbone with a head of ours; what it can do stands in the classes that inherit from this one.

    Attributes:
        backbone: The model of transformers that is wrapped.
        next_word_head: The head in place of its output distribution.
        objective: What the head is trained towards.
        conditioner: What brings the states of an auxiliary text into the decoder; None for a model that follows none.
        auxiliary_encoder: The encoder of the auxiliary texts; None without a conditioner. Frozen unless the conditioner
            trains all.
    """

    config_class = NextWordConfig
    if TYPE_CHECKING:  # transformers would take the annotation for the class
        config: Any

    backbone: Any
    next_word_head: Head
    objective: Objective
    conditioner: Any
    auxiliary_encoder: Any

    _cache_argument: str
    """Name under which the backbone takes its cache."""
    _why_no_head_cache: str
    """Why nothing of ours may ride in that cache; empty where it may."""

    @property
    def carries_head_cache(self) -> bool:
        """Whether something rides in the KV cache: what the head remembers, or what was made of an auxiliary text."""
        if self.conditioner is None:
            return bool(self.next_word_head.remembers)
        return not self._why_no_head_cache

    def get_input_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_output_embeddings()
