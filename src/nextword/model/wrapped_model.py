"""The parts that a wrapped model has: the parts that every module about it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel

from nextword.heads import Head
from nextword.heads.head import Draw
from nextword.model.configuration import NextWordConfig
from nextword.objectives import Objective
from nextword.settings.config import validated


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
    if TYPE_CHECKING:  # transformers would take the annotation for the class, and leaves its methods untyped
        config: Any
        to: Any
        eval: Any

    backbone: Any
    next_word_head: Head
    objective: Objective
    conditioner: Any
    auxiliary_encoder: Any

    _cache_argument: str  # name under which the backbone takes its cache
    _why_no_head_cache: str  # why nothing of ours may ride in that cache; empty where it may

    @property
    def carries_head_cache(self) -> bool:
        """Whether something rides in the KV cache: what the head remembers, or what was made of an auxiliary text."""
        if self.conditioner is None:
            return bool(self.next_word_head.remembers)
        return not self._why_no_head_cache

    def head_draw(self, generation_config: Any, caller: str = "generate") -> Draw | None:
        """The choice that the head makes before each token of a call; None: it makes none."""
        head, given = self.next_word_head, getattr(generation_config, "head_settings", {})
        config = validated(type(head.config), head.config.model_dump() | given, caller) if given else head.config
        # an assistant's scores must be what its tokens were sampled from, so an assistant draws from the whole
        is_assistant = getattr(generation_config, "is_assistant", False)
        return None if is_assistant else head.draw(config, sample=bool(generation_config.do_sample))

    def get_input_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The backbone's."""
        return self.backbone.get_output_embeddings()
