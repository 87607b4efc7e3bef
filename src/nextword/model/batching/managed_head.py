"""What a head needs of the manager that runs the batches.

Like the moves of a KV cache (``nextword.model.head_cache.kv_cache``), these are methods of one manager, which do what
its class does and then what the head needs. Its class stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessorList
from transformers.generation.continuous_batching.utils import find_head_dim, find_num_key_value_heads

from nextword.heads.head import Draw
from nextword.model.batching.batchable import expect_request
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.forward.packed_inputs import OutputParts, PackedTokens, packed_inputs
from nextword.model.head_cache.paged_cache import memory_on
from nextword.model.head_cache.slots import PassSlots, SlotMemory
from nextword.model.redraw import RedrawProcessor


class RedrawingProcessors(ContinuousBatchingLogitsProcessorList):
    """The processors of a manager, with another choice of the head where they ruled out everything.

    Args:
        made: The manager's own.
        draw: The head's choice.
    """

    def __init__(self, made: ContinuousBatchingLogitsProcessorList, draw: Draw) -> None:
        vars(self).update(vars(made))
        self._draw = draw

    def __call__(self, input_ids: Tensor, scores: Tensor, logits_processor_args: Tensor) -> Tensor:
        """Processed scores (N, V)."""
        plain = super().__call__
        return RedrawProcessor(self._draw, lambda ids, given: plain(ids, given, logits_processor_args))(
            input_ids, scores
        )


class ManagedHead:
    """Methods of one manager of continuous batching.

    Args:
        manager: The manager.
        model: Its ``NextWordModel``.
        draw: The head's choice before each token, if it makes one.
    """

    def __init__(self, manager: Any, model: Any, draw: Draw | None) -> None:
        self._manager, self._model, self._draw = manager, model, draw
        self.training: list[tuple[nn.Module, bool]] = []
        """The modules of the model, and whether each was in training before the manager took it."""

    def take(self) -> None:
        """Lets the manager's methods be these."""
        for name in ("_create_batch_processor", "add_request", "stop"):
            setattr(self._manager, name, getattr(self, name))
        if self._draw is not None:
            self._manager.logit_processor = RedrawingProcessors(self._manager.logit_processor, self._draw)
        self._manager.managed_head = self

    def _create_batch_processor(self) -> Any:
        """The manager's batches, whose cache carries what the head remembers."""
        manager = self._manager
        made = type(manager)._create_batch_processor(manager)
        if self._model.next_word_head.remembers:
            memory_on(made.cache)
        made.cache.head_draw = self._draw
        return made

    def add_request(self, input_ids: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        """As the manager's own; raises ValueError for a prompt that would end the batches of all others."""
        expect_request(self._model, input_ids)
        return type(self._manager).add_request(self._manager, input_ids, *args, **kwargs)

    def stop(self, *args: Any, **kwargs: Any) -> None:
        """As the manager's own; then every module is in training or not, as it was."""
        type(self._manager).stop(self._manager, *args, **kwargs)
        for module, mode in self.training:
            module.training = mode


@torch.no_grad()
def bytes_per_slot(model: Any) -> int:
    """Memory that a head takes for one place, found by letting it write one."""
    head = model.next_word_head
    weight: Tensor = next(head.parameters(), torch.zeros((), device=model.device))
    state = torch.zeros(1, head.dimensions.hidden, device=weight.device, dtype=model.dtype)
    layer = torch.zeros(1, head.dimensions.layer, device=weight.device, dtype=model.dtype)
    one = torch.ones(1, dtype=torch.long, device=weight.device)
    slots = PassSlots(starts=torch.tensor([0, 1], device=one.device), lengths=one, held=one[None] - 1, count=1)
    memory = SlotMemory(1)
    tokens = PackedTokens(one, state, (layer,) * head.layers)
    packed_inputs(head, OutputParts(OutputLayer(model.backbone)), tokens, memory.in_pass(slots))
    return memory.bytes_per_slot


def share_of_the_cache(model: Any) -> float:
    """How much of the memory for keys and values is left to them beside what the head keeps and reads of each place."""
    config = model.config.get_text_config()
    heads, width = find_num_key_value_heads(config), find_head_dim(config)
    keys_and_values = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize
    kept_and_read = 2 * bytes_per_slot(model)
    return float(keys_and_values / (keys_and_values + kept_and_read))
