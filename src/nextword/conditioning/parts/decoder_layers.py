"""Finding the layers of any decoder, and running something after the self-attention of some of them.

Hooks do it, so that no model's code is copied. What runs travels through the keyword arguments of the backbone's
forward to its layers: a layer's hook adds the layer's input, and the hook of its self-attention, which is given the
same arguments, adds to what the self-attention returns. Nothing is kept on modules between the two, so a layer may be
computed again (activation checkpointing), deep-copied, or run by several threads; without the argument the backbone is
its bare self.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nextword.runtime.devices import device_of

ARGUMENT = "after_self_attention"
"""Name of the argument that travels."""

_ATTENTION = ("self_attn", "attn", "self_attention", "attention")
"""What models call the self-attention of a layer."""


class AfterSelfAttention(ABC):
    """Something to be run between the self-attention and the feed-forward part of some layers of a backbone.

    Args:
        residual: Input of the layer that is running, to which its self-attention is going to be added.
    """

    residual: Tensor | None

    @abstractmethod
    def with_residual(self, residual: Float[Tensor, "B T D"]) -> AfterSelfAttention:
        """The same, told the input of a layer."""

    @abstractmethod
    def __call__(self, layer: int, attended: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What stands in place of the self-attention's output in this layer."""


def decoder_layers(backbone: Any) -> nn.ModuleList:
    """The layers of a decoder-only model, in order.

    Raises:
        ValueError: There is no list of as many layers as its configuration says, each with a self-attention.
    """
    count = backbone.config.get_text_config(decoder=True).num_hidden_layers
    for module in backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count and all(map(_attention_of, module)):
            return module
    raise ValueError(
        f"{type(backbone).__name__}: no list of {count} layers with a self-attention ({', '.join(_ATTENTION)}) was "
        "found in it, so nothing can be put after the self-attention"
    )


def _attention_of(layer: nn.Module) -> nn.Module | None:
    found = (getattr(layer, name, None) for name in _ATTENTION)
    return next((module for module in found if isinstance(module, nn.Module)), None)


def prepare_layers(backbone: Any) -> None:
    """Puts the hooks on all layers, once; they do nothing until a forward pass is given the argument.

    Raises:
        ValueError: The layers were not found.
    """
    for number, layer in enumerate(decoder_layers(backbone)):
        attention = _attention_of(layer)
        assert attention is not None
        if not hasattr(attention, "_nextword_layer"):
            layer.register_forward_pre_hook(_before_layer, with_kwargs=True)
            attention.register_forward_hook(_after_attention, with_kwargs=True)
            attention._nextword_layer = number  # type: ignore[assignment]


def _before_layer(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    running = kwargs.get(ARGUMENT)
    if running is None:
        return None
    return args, kwargs | {ARGUMENT: running.with_residual(args[0] if args else kwargs["hidden_states"])}


def _after_attention(attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    running = kwargs.get(ARGUMENT)
    if running is None:
        return None
    number: Any = attention._nextword_layer
    if isinstance(output, tuple):
        return (running(number, output[0]), *output[1:])
    return running(number, output)


def modules_run(backbone: Any, inputs: dict[str, Any], further: Iterable[nn.Module]) -> list[nn.Module]:
    """The modules with parameters that a forward pass of two tokens runs, in order.

    Args:
        backbone: Its modules are listed.
        inputs: Further arguments of its forward.
        further: Modules from elsewhere that are listed where they run.
    """
    ran: list[nn.Module] = []
    listed = [module for module in backbone.modules() if next(module.parameters(recurse=False), None) is not None]
    hooks = [module.register_forward_hook(lambda module, *_: ran.append(module)) for module in (*listed, *further)]
    ids = torch.zeros(1, 2, dtype=torch.long, device=device_of(backbone.get_input_embeddings()))
    try:
        backbone(input_ids=ids, use_cache=False, **inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return ran
