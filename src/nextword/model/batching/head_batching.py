"""The entry points of transformers' continuous batching, as a model with a head has them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import transformers
from transformers import ContinuousBatchingConfig, GenerationMixin

from nextword.heads import head_spec
from nextword.heads.head import Draw
from nextword.settings.config import validated

_OLDEST = "transformers.generation.continuous_batching.cache_allocators"
"""What the slots of the cache are known from; transformers has it from 5.18 on."""


class HeadBatching:
    """Continuous batching in which every request gets what ``generate`` gives it alone.

    To be mixed into a model with ``backbone``, ``next_word_head`` and ``config``, before ``GenerationMixin``.
    """

    next_word_head: Any
    generation_config: Any

    def init_continuous_batching(
        self,
        generation_config: Any = None,
        continuous_batching_config: Any = None,
        workload_hints: Any = None,
    ) -> Any:
        """A manager of continuous batching, with the arguments of transformers.

        Neither these configurations nor the model's are changed. What the model has in training is in evaluation until
        the manager is stopped.

        Raises:
            ValueError: The model has an encoder or a conditioner, or a setting does not go with its head.
        """
        if find_spec(_OLDEST) is None:
            raise ValueError(
                f"continuous batching: must have transformers 5.18 or later ({transformers.__version__} installed); "
                "install it, or use generate"
            )
        # here, because older versions have not all of what these import
        from nextword.model.batching.batchable import expect_batchable, expect_eager
        from nextword.model.batching.managed_head import ManagedHead, share_of_the_cache

        head = self.next_word_head
        settings = copy.deepcopy(self.generation_config if generation_config is None else generation_config)
        batching = copy.deepcopy(continuous_batching_config) or ContinuousBatchingConfig()
        expect_batchable(self, settings, batching)
        given = getattr(settings, "head_settings", {})
        config = validated(type(head.config), head.config.model_dump() | given, "generate_batch")
        draw = head.draw(config, sample=bool(settings.do_sample))
        if head.remembers or draw is not None:
            expect_eager(batching, head_spec(head.config))
            batching.use_cuda_graph = False
        modes = [(module, module.training) for module in self.modules()]  # type: ignore[attr-defined]
        manager = super().init_continuous_batching(settings, batching, workload_hints)  # type: ignore[misc]
        managed: ManagedHead | None = getattr(manager, "managed_head", None)
        if managed is None:
            managed = ManagedHead(manager, self, draw)
            managed.take()
            if head.remembers:
                manager.continuous_batching_config.max_memory_percent *= share_of_the_cache(self)
        managed.training = modes
        self.eval()  # type: ignore[attr-defined]  # a manager that was kept does not see to it again
        return manager

    @staticmethod
    def _draw_of_batch(arguments: Mapping[str, Any]) -> Draw | None:
        """The head's choice in a pass of continuous batching with these arguments; None outside of it."""
        draw: Draw | None = getattr(arguments.get("cache"), "head_draw", None)
        return draw

    def generate_batch(self, inputs: Any, generation_config: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Tokens after each prompt by continuous batching, with the arguments of transformers.

        Args:
            inputs: A list of token ids for each request.
            generation_config: How to generate; the model's own by default.
            *args: As transformers has them.
            **kwargs: Likewise, and what the head lets ``generate`` decide (``decoupled`` of ``f2``).

        Raises:
            ValueError: A prompt without tokens or with unknown ones, and as ``init_continuous_batching``.
        """
        from nextword.model.batching.batchable import expect_request

        head = self.next_word_head
        known = {*inspect.signature(GenerationMixin.generate_batch).parameters, "max_new_tokens", *head.generate_takes}
        for name in kwargs:
            if name not in known:
                raise ValueError(f"generate_batch: does not take '{name}'; set it in generation_config")
        for ids in inputs:
            expect_request(self, ids)
        settings = copy.deepcopy(self.generation_config if generation_config is None else generation_config)
        settings.head_settings = {name: kwargs.pop(name) for name in head.generate_takes if name in kwargs}
        return super().generate_batch(inputs, settings, *args, **kwargs)  # type: ignore[misc]
