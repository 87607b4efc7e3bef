"""BERGPT: decoder layers attend to the tokens of the auxiliary text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nextword.conditioning.conditioner import Conditioner, ConditionerConfig, OutputProjection, one_number, registry
from nextword.heads import Dimensions
from nextword.runtime.devices import device_of

# -- Finding the layers of any decoder, and running a block after the self-attention of some of them.
#
# Hooks run the blocks, so no model's code is copied. The blocks are a keyword argument of the backbone's forward, which
# passes it to its layers. A layer's hook adds the layer's input to the argument. The hook of the layer's self-attention
# receives the same argument, and adds the block's output to the output of the self-attention. Modules store nothing
# between the two hooks, so a layer may be recomputed (gradient checkpointing), deep-copied, or run by several threads.
# Without the argument, the hooks do nothing.

ARGUMENT = "after_self_attention"
"""Name of the keyword argument with the blocks."""

_ATTENTION = ("self_attn", "attn", "self_attention", "attention")
"""Names of a layer's self-attention in different models."""


def decoder_layers(backbone: Any) -> nn.ModuleList:
    """Returns the layers of a decoder-only model, in order.

    Raises:
        ValueError: If the model has no list of ``num_hidden_layers`` modules that each have a self-attention.
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
    """Registers hooks on all decoder layers, once. They act only in a pass with the keyword argument ``ARGUMENT``.

    Raises:
        ValueError: If ``decoder_layers`` does not find the layers.
    """
    for number, layer in enumerate(decoder_layers(backbone)):
        attention = _attention_of(layer)
        assert attention is not None
        if not hasattr(attention, "_nextword_layer"):
            layer.register_forward_pre_hook(_before_layer, with_kwargs=True)
            attention.register_forward_hook(_after_attention, with_kwargs=True)
            attention._nextword_layer = number  # type: ignore[assignment]


def _before_layer(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    running: _Running | None = kwargs.get(ARGUMENT)
    if running is None:
        return None
    return args, kwargs | {ARGUMENT: replace(running, residual=args[0] if args else kwargs["hidden_states"])}


def _after_attention(attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    running: _Running | None = kwargs.get(ARGUMENT)
    if running is None:
        return None
    number: Any = attention._nextword_layer
    if isinstance(output, tuple):
        return (running.added_to(number, output[0]), *output[1:])
    return running.added_to(number, output)


def modules_run(backbone: Any, inputs: dict[str, Any], further: Iterable[nn.Module]) -> list[nn.Module]:
    """Runs ``backbone`` with ``inputs`` on two tokens, and returns the modules that were called, in order.

    Only the modules in ``further`` and the backbone's modules with parameters of their own are returned.
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


# -- BERGPT.


class CrossAttentionConfig(ConditionerConfig):
    """Settings of BERGPT."""

    published: ClassVar[Mapping[str, Any]] = {"start": "random", "trains": "new", "tied": False}

    conditioner: Literal["bergpt"] = "bergpt"
    last: int = Field(default=1, ge=1)
    """Number of last decoder layers that get a block."""
    layers: list[int] | None = Field(default=None, min_length=1)
    """Numbers of the decoder layers that get a block, from 0, negative from the end; None: the ``last`` layers."""
    heads: int | None = Field(default=None, ge=1)
    """Number of attention heads in a block; None: as many as in the decoder."""
    expansion: int = Field(default=4, ge=1, le=1000)
    """Inner width of a block's feed-forward layers, as a multiple of the decoder's width."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate on the outputs of a block's attention and feed-forward layers."""
    tied: bool = False
    """Whether a tied output layer stays tied to the input embedding; both are then trained, because the output layer is
    downstream of the blocks. False: the output layer is untied and trained separately (published)."""
    trains: Literal["new", "downstream", "decoder", "all"] = "downstream"
    """What is trained. ``new``: conditioner, head and an untied output layer (published); ``downstream``: also all
    decoder weights after the blocks; ``decoder``: also the whole decoder; ``all``: also the auxiliary encoder."""

    @property
    def unties(self) -> bool:
        """Whether the output layer is untied from the input embedding."""
        return not self.tied

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> dict[str, Any]:
        """Parses the arguments of a spec such as ``bergpt:2``."""
        return one_number("last", arguments, "last layers such as bergpt:2")

    def arguments(self) -> list[str]:
        """Returns the arguments of the spec: ``last``, unless it is 1 or ``layers`` is set."""
        return [str(self.last)] if self.last > 1 and self.layers is None else []

    def chosen(self, count: int) -> tuple[int, ...]:
        """Returns the numbers, ascending, of the layers that get a block; ``count`` is the number of decoder layers.

        Raises:
            ValueError: If a layer does not exist or is given twice.
        """
        if self.layers is None and self.last > count:
            raise ValueError(
                f"conditioner.last: must be at most {count}, the layers of the decoder ({self.last} given)"
            )
        wanted = range(count - self.last, count) if self.layers is None else self.layers
        wrong = [number for number in wanted if not -count <= number < count]
        if wrong:
            raise ValueError(
                f"conditioner.layers: must be among the decoder's layers 0 to {count - 1} ({wrong[0]} given)"
            )
        found = sorted({number % count for number in wanted})
        if len(found) < len(wanted):
            raise ValueError(f"conditioner.layers: must not name a layer twice ({list(wanted)} given)")
        return tuple(found)


class CrossAttentionBlock(nn.Module):
    """Cross-attention to the auxiliary text and a feed-forward network, each with layer norm and residual connection.

    ``width`` (D) is the width of the decoder's states, ``source`` (E) that of the encoder's states.
    """

    def __init__(self, width: int, source: int, heads: int, config: CrossAttentionConfig) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key, self.value = nn.Linear(source, width), nn.Linear(source, width)
        self.merge = OutputProjection(width, width, config.start)
        self.widen = nn.Linear(width, config.expansion * width)
        self.narrow = OutputProjection(config.expansion * width, width, config.start)
        self.dropout = nn.Dropout(config.dropout)

    def _by_head(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T D2"]:
        return states.view(*states.shape[:-1], self.heads, -1).transpose(1, 2)

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B A D"],
        values: Float[Tensor, "B A D"],
        valid: Bool[Tensor, "B A"],
    ) -> Float[Tensor, "B T D"]:
        """Returns the tensor that the block adds to ``states``, the decoder's states after self-attention."""
        queries = self._by_head(self.query(self.norm(states)))
        keys, values = self._by_head(keys).to(queries.dtype), self._by_head(values).to(queries.dtype)
        read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=valid[:, None, None])
        added = self.dropout(self.merge(read.transpose(1, 2).flatten(2)))
        inner = F.gelu(self.widen(self.feed_forward_norm(states + added)), approximate="tanh")
        total: Tensor = added + self.dropout(self.narrow(inner))
        return total


@dataclass(frozen=True)
class _Running:
    # the blocks in one forward pass, their keys and values of the auxiliary texts, and the current layer's input
    blocks: Mapping[int, CrossAttentionBlock]
    kept: Mapping[str, Tensor]
    residual: Tensor | None = None

    def added_to(self, layer: int, attended: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        block, kept = self.blocks.get(layer), self.kept
        if block is None:
            return attended
        assert self.residual is not None
        added: Tensor = block(self.residual + attended, kept[f"keys {layer}"], kept[f"values {layer}"], kept["valid"])
        return attended + added.to(attended.dtype)


@registry.register("bergpt")
class CrossAttentionConditioner(Conditioner):
    """Some decoder layers attend to the auxiliary text, between their self-attention and their feed-forward network.

    Formula: x are the states after a layer's self-attention and its residual connection, y the encoder's states, and O,
    Q, K and V learned projections::

        a = O MHA(LN(x) Q, y K, y V),    x <- x + a,    x <- x + FF(LN(x))

    MHA is ``softmax(q k^T / sqrt(D / heads)) v`` in each attention head, of queries q, keys k and values v. LN is layer
    norm; FF has two linear layers with a gelu between them.

    Effect: the next token may depend on single tokens of the auxiliary text, differently at every position. Cost:
    about ``(2 + 2 expansion) D^2 + 2 D E`` parameters per block; keys and values are computed once per text.

    BERGPT works on any decoder whose layers pass extra keyword arguments to their self-attention (GPT-2, Llama, Qwen
    and most others); for other models ``attach`` raises an error after a trial run. If a layer runs attention and
    feed-forward network in parallel, or normalises the attention output, the block is inserted at that output.

    By default, training updates the blocks and all decoder weights after them: the feed-forward network of their
    layer with its norm, the last norm, and an untied output layer, initialised as a copy of the pretrained one. Encoder
    and earlier weights are frozen. O and the second feed-forward layer start at zero, so predictions do not change.

    ``bergpt:published`` is the model of He, Chen and Kim's report (section 4.2). All pretrained weights are frozen. The
    block in the last layer and a new output layer are trained from random weights; the pretrained output layer is
    discarded.

    Source: He, Chen and Kim 2020, section 3.4 (BERGPT), eq. 3 and 4; section 4.2 for what is trained.

    Differs from the report: encoder and decoder may have different widths. By default, the block starts at zero, the
    output layer starts as a copy of the pretrained one, and the rest of the last layer is trained too. Section 3.4 of
    the report trains the rest of the last layer ("downstream"), and section 4.2 freezes it.

    Examples:
        >>> from nextword.conditioning import parse_conditioner
        >>> parse_conditioner({"conditioner": "bergpt", "layers": [0, -1]}).chosen(12)
        (0, 11)
    """

    Config = CrossAttentionConfig

    def __init__(self, config: CrossAttentionConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__(config, dimensions, attention_heads)
        width, heads = dimensions.layer, config.heads or attention_heads
        if width % heads:
            raise ValueError(f"conditioner.heads: must divide the decoder's width of {width} ({heads} given)")
        self.chosen: Sequence[int] = config.chosen(dimensions.layers)
        self.blocks = nn.ModuleList(CrossAttentionBlock(width, self.width, heads, config) for _ in self.chosen)

    @property
    def _block_of(self) -> dict[int, CrossAttentionBlock]:
        return dict(zip(self.chosen, self.blocks, strict=True))  # type: ignore[arg-type]  # a list of modules, says torch

    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """Computes the keys and values of every block from the encoder's ``states``."""
        kept = {"valid": valid}
        for layer, block in self._block_of.items():
            kept |= {f"keys {layer}": block.key(states), f"values {layer}": block.value(states)}
        return kept

    def place_in(self, backbone: Any) -> None:
        """Registers hooks on the decoder's layers."""
        prepare_layers(backbone)

    def backbone_inputs(self, kept: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns the keyword argument ``ARGUMENT``: the blocks, with their keys and values from ``kept``."""
        return {ARGUMENT: _Running(self._block_of, kept)}

    def init_from_backbone(self, backbone: Any) -> None:
        """Checks that a trial run calls all blocks (else ValueError), then calls ``Conditioner.init_from_backbone``."""
        try:
            ran = self._trial(backbone)
        except TypeError as fault:
            raise ValueError(f"{_refusal(backbone)} ({fault})") from fault
        missed = [layer for layer, block in self._block_of.items() if block not in ran]
        if missed:
            raise ValueError(f"{_refusal(backbone)} (layer {missed[0]} did not)")
        super().init_from_backbone(backbone)

    def downstream(self, backbone: Any) -> list[nn.Parameter]:
        """Returns the parameters of all modules that run after the first block."""
        ran = self._trial(backbone)
        later = ran[ran.index(self.blocks[0]) + 1 :]
        return [parameter for module in later for parameter in module.parameters(recurse=False)]

    @torch.no_grad()
    def _trial(self, backbone: Any) -> list[nn.Module]:
        # the modules that run in a forward pass, in order: the blocks, and the backbone's modules with parameters
        weight = self.blocks[0].key.weight  # type: ignore[union-attr]  # a module, says torch
        nothing = weight.new_zeros(1, 1, self.width)  # type: ignore[operator]
        kept = self.read(nothing, torch.ones(nothing.shape[:2], dtype=torch.bool, device=nothing.device))
        return modules_run(backbone, self.backbone_inputs(kept), self.blocks)


def _refusal(backbone: Any) -> str:
    return (
        f"bergpt: the layers of {type(backbone).__name__} do not pass extra arguments to their self-attention, so "
        "cross-attention cannot follow it; use dau, lmh or prefix"
    )
