"""Transformers' continuous batching for models with a head."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import ContinuousBatchingConfig, GenerationMixin
from transformers.generation.continuous_batching import cache as paged_cache
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessorList
from transformers.generation.continuous_batching.utils import find_head_dim, find_num_key_value_heads
from transformers.utils.generic import is_flash_attention_requested

from nextword.heads import head_spec
from nextword.heads.head import Draw
from nextword.model.forward.argument_checks import expect_known_ids
from nextword.model.forward.head_inputs import OutputParts, PackedTokens, packed_inputs
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.head_cache.slots import SlotMapping, SlotMemory, memory_on
from nextword.model.speculative_decoding.token_choice import RedrawProcessor
from nextword.model.wrapped_model import WrappedModel


class ContinuousBatching(WrappedModel):
    """Adds continuous batching (one batch that requests join and leave) with the same results as ``generate``."""

    def init_continuous_batching(
        self,
        generation_config: Any = None,
        continuous_batching_config: Any = None,
        workload_hints: Any = None,
    ) -> Any:
        """Makes a manager of continuous batching, with the arguments of transformers.

        Neither the given configurations nor the model's are changed. All modules of the model are in evaluation mode
        until the manager is stopped.

        Raises:
            ValueError: If the model has an encoder or a conditioner, if beam search is configured, or if the backbone
                or a setting does not work with continuous batching or with this head.
        """
        head = self.next_word_head
        settings = copy.deepcopy(self.generation_config if generation_config is None else generation_config)
        batching = copy.deepcopy(continuous_batching_config) or ContinuousBatchingConfig()
        expect_batchable(self, settings, batching)
        draw = self.head_draw(settings, "generate_batch")
        if head.remembers or draw is not None:
            expect_eager(batching, head_spec(head.config))
            batching.use_cuda_graph = False
        modes = [(module, module.training) for module in self.modules()]
        manager = super().init_continuous_batching(settings, batching, workload_hints)  # type: ignore[misc]
        managed: ManagedHead | None = getattr(manager, "managed_head", None)
        if managed is None:
            managed = ManagedHead(manager, self, draw)
            if head.remembers:
                manager.continuous_batching_config.max_memory_percent *= share_of_the_cache(self)
        managed.training = modes
        self.eval()  # if transformers reuses an earlier manager, that manager does not set evaluation mode again
        return manager

    def generate_batch(self, inputs: Any, generation_config: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Generates tokens for each prompt (a list of ids) by continuous batching, with the arguments of transformers.

        ``kwargs`` may also have those arguments of ``generate`` that the head defines, such as ``decoupled`` of ``f2``.

        Raises:
            ValueError: If an argument is unknown, a prompt is empty or has a token outside the vocabulary, or in the
                cases of ``init_continuous_batching``.
        """
        head = self.next_word_head
        known = {*inspect.signature(GenerationMixin.generate_batch).parameters, "max_new_tokens", *head.generate_takes}
        for name in kwargs:
            if name not in known:
                raise ValueError(f"generate_batch: does not take '{name}'; set it in generation_config")
        for ids in inputs:
            expect_request(self, ids)
        settings: Any = copy.deepcopy(self.generation_config if generation_config is None else generation_config)
        settings.head_settings = {name: kwargs.pop(name) for name in head.generate_takes if name in kwargs}
        return super().generate_batch(inputs, settings, *args, **kwargs)  # type: ignore[misc]


# -- What a head needs from the manager that runs the batches.
#
# Like the methods in ``nextword.model.head_cache.kv_cache``, these replace the methods of one manager object. Each does
# what the method of the manager's class does, and then what the head needs. The manager's class is not changed.


class RedrawingProcessors(ContinuousBatchingLogitsProcessorList):
    """The logits processors ``made`` of a manager. If they exclude all tokens that ``draw`` chose, it chooses again."""

    def __init__(self, made: ContinuousBatchingLogitsProcessorList, draw: Draw) -> None:
        vars(self).update(vars(made))
        self._draw = draw

    def __call__(self, input_ids: Tensor, scores: Tensor, logits_processor_args: Tensor) -> Tensor:
        """Returns the processed ``scores`` (N, V)."""
        plain = super().__call__
        redrawing = RedrawProcessor(self._draw, lambda ids, given: plain(ids, given, logits_processor_args))
        return redrawing(input_ids, scores)


class ManagedHead:
    """Replaces methods of ``manager``: the head then caches values, and ``draw`` chooses a class before each token."""

    def __init__(self, manager: Any, model: WrappedModel, draw: Draw | None) -> None:
        self._manager, self._model, self._draw = manager, model, draw
        # the modules of the model, and whether each was in training mode before the manager changed it
        self.training: list[tuple[nn.Module, bool]] = []
        for name in ("_create_batch_processor", "add_request", "stop"):
            setattr(manager, name, getattr(self, name))
        if draw is not None:
            manager.logit_processor = RedrawingProcessors(manager.logit_processor, draw)
        manager.managed_head = self

    def _create_batch_processor(self) -> Any:
        manager = self._manager
        made = type(manager)._create_batch_processor(manager)
        if self._model.next_word_head.remembers:
            memory_on(made.cache)
        made.cache.head_draw = self._draw
        return made

    def add_request(self, input_ids: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        """Adds a request. Raises ValueError if its prompt is empty or has a token outside the vocabulary."""
        expect_request(self._model, input_ids)
        return type(self._manager).add_request(self._manager, input_ids, *args, **kwargs)

    def stop(self, *args: Any, **kwargs: Any) -> None:
        """Stops the manager and restores the training mode of every module."""
        type(self._manager).stop(self._manager, *args, **kwargs)
        for module, mode in self.training:
            module.training = mode


@torch.no_grad()
def bytes_per_slot(model: WrappedModel) -> int:
    """Number of bytes that the model's head stores per position, measured by storing one position."""
    head = model.next_word_head
    weight: Tensor = next(head.parameters(), torch.zeros((), device=model.device))
    state = torch.zeros(1, head.dimensions.hidden, device=weight.device, dtype=model.dtype)
    layer = torch.zeros(1, head.dimensions.layer, device=weight.device, dtype=model.dtype)
    one = torch.ones(1, dtype=torch.long, device=weight.device)
    slots = SlotMapping(starts=torch.tensor([0, 1], device=one.device), lengths=one, held=one[None] - 1, count=1)
    memory = SlotMemory(1)
    tokens = PackedTokens(one, state, (layer,) * head.layers)
    packed_inputs(head, OutputParts(OutputLayer(model.backbone)), tokens, memory.in_pass(slots))
    return memory.bytes_per_slot


def share_of_the_cache(model: WrappedModel) -> float:
    """Fraction of the cache memory to use for keys and values. The rest is for the head's values and their copies."""
    config = model.config.get_text_config()
    heads, width = find_num_key_value_heads(config), find_head_dim(config)
    keys_and_values = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize
    kept_and_read = 2 * bytes_per_slot(model)
    return float(keys_and_values / (keys_and_values + kept_and_read))


# -- What continuous batching cannot do with a model. An error says so before anything starts.

_WHOLE_TEXTS = "full_attention"
_OURS = "continuous batching"


def expect_batchable(model: WrappedModel, generation_config: Any, batching_config: Any) -> None:
    """Raises ValueError if continuous batching would fail, or give other results than separate ``generate`` calls."""
    if model.conditioner is not None:
        raise ValueError(
            f"{_OURS}: must be used with a model without conditioner (one with a conditioner given); use generate"
        )
    if model.config.is_encoder_decoder:
        raise ValueError(
            f"{_OURS}: must be used with a decoder-only model (an encoder-decoder model given); use generate"
        )
    if (beams := generation_config.num_beams or 1) > 1:
        raise ValueError(f"num_beams: must be 1 in {_OURS} ({beams} given); use generate")
    _expect_attention(model)
    if model.next_word_head.remembers:
        _expect_memory(model, batching_config, head_spec(model.next_word_head.config))


def _expect_attention(model: WrappedModel) -> None:
    # transformers must separate the requests of one row, and must compute the same as without continuous batching
    backbone, config = type(model.backbone), model.config.get_text_config()
    if not backbone._can_set_attn_implementation():
        raise ValueError(
            f"{_OURS}: {backbone.__name__} does not call transformers' attention interface, so requests in one row "
            "would see each other; use generate"
        )
    try:
        paged_cache.group_layers_by_attn_type(config)
    except ValueError as fault:
        raise ValueError(
            f"{_OURS}: {backbone.__name__} has layers without a paged cache; use generate ({fault})"
        ) from fault
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap is not None and not is_flash_attention_requested(config):
        raise ValueError(
            f"attn_logit_softcapping: must be None in {_OURS} ({cap} given), because transformers leaves it out there; "
            "load the model with attn_implementation='flash_attention_2', or use generate"
        )


def _expect_memory(model: WrappedModel, batching_config: Any, head: str) -> None:
    # the model's cache must have slots, so that the head can store its values at the same slots
    if _WHOLE_TEXTS not in paged_cache.group_layers_by_attn_type(model.config.get_text_config()):
        raise ValueError(
            f"{_OURS}: head '{head}' remembers the whole text, and all layers of {type(model.backbone).__name__} keep "
            "a sliding window only; use generate"
        )
    if (space := batching_config.cpu_offload_space) != 0:
        raise ValueError(
            f"cpu_offload_space: must be 0 with head '{head}' ({space} given), as the head's cache stays on the GPU. "
            "Requests that are preempted are then computed again"
        )


def expect_eager(config: Any, head: str) -> None:
    """Raises ValueError if ``config`` compiles passes or records graphs, because the head's tensors change in size."""
    graphs = config.use_cuda_graph
    settings = {
        "use_cuda_graph": any(graphs) if isinstance(graphs, tuple) else graphs,
        "varlen_compile_config": config.varlen_compile_config,
        "decode_compile_config": config.decode_compile_config,
        "default_compile_level": config.default_compile_level,
    }
    for name, given in settings.items():
        if given:
            raise ValueError(f"{name}: must be off with head '{head}', whose sizes change in every pass; leave it out")


def expect_request(model: WrappedModel, ids: Sequence[int]) -> None:
    """Raises ValueError if the prompt ``ids`` of a request is empty or has a token outside the vocabulary."""
    if not len(ids):
        raise ValueError("empty prompt: at least one token is needed; start with the model's bos token")
    expect_known_ids("input_ids", torch.as_tensor(ids), model.get_input_embeddings().weight.shape[0])
