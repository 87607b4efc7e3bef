"""Base class of wrapped models, with the attributes that all other modules use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel

from nextword.heads import Head
from nextword.heads.head import Draw
from nextword.model.configuration import NextWordConfig
from nextword.objectives import Objective
from nextword.settings.config import validated


class WrappedModel(PreTrainedModel):
    """An unmodified backbone with a nextword head; subclasses add the methods.

    Attributes:
        backbone: The wrapped transformers model.
        next_word_head: The head that computes the output distribution.
        objective: The training objective.
        conditioner: Module that passes the states of an auxiliary text to the decoder; None: no auxiliary text.
        auxiliary_encoder: The encoder of the auxiliary texts; None without a conditioner. It is frozen unless the
            conditioner's setting ``trains`` is "all".
    """

    config_class = NextWordConfig
    if TYPE_CHECKING:  # transformers would read the annotation as the configuration class, and its methods are untyped
        config: Any
        to: Any
        eval: Any

    backbone: Any
    next_word_head: Head
    objective: Objective
    conditioner: Any
    auxiliary_encoder: Any

    _cache_argument: str  # name of the backbone's argument for its cache
    _why_no_head_cache: str  # why no head cache can be attached to the backbone's cache; empty if it can

    @property
    def carries_head_cache(self) -> bool:
        """Whether the KV cache carries a head cache, which holds values of the head or of an auxiliary text."""
        if self.conditioner is None:
            return bool(self.next_word_head.remembers)
        return not self._why_no_head_cache

    def head_draw(self, generation_config: Any, caller: str = "generate") -> Draw | None:
        """The object that makes the head's choice before each token, such as a class of ``f2``; None: no choice.

        Error messages about the head settings in ``generation_config`` name ``caller``.
        """
        head, given = self.next_word_head, getattr(generation_config, "head_settings", {})
        config = validated(type(head.config), head.config.model_dump() | given, caller) if given else head.config
        # an assistant's tokens must be sampled from its full distribution, because its scores are used to verify them
        is_assistant = getattr(generation_config, "is_assistant", False)
        return None if is_assistant else head.draw(config, sample=bool(generation_config.do_sample))

    def get_input_embeddings(self) -> Any:
        """The backbone's input embeddings."""
        return self.backbone.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The backbone's output embeddings."""
        return self.backbone.get_output_embeddings()
