"""The base class and the specs of conditioners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nextword.distribution import Vocabulary
from nextword.heads import Dimensions
from nextword.settings.old_modules import keep_old_methods
from nextword.settings.registry import Registry
from nextword.settings.specs import Grammar, SpecSettings

_SPREAD = 0.02
"""Standard deviation of randomly initialised new weights, as in GPT-2."""


class ConditionerConfig(SpecSettings):
    """Settings that all conditioners have."""

    conditioner: str
    """Registered name of the conditioner."""
    trains: Literal["new", "downstream", "decoder", "all"] = "new"
    """What is trained. ``new``: conditioner, head and, if untied, the output layer; ``downstream``: also all decoder
    weights after the conditioner; ``decoder``: also the whole decoder; ``all``: also the auxiliary encoder."""
    start: Literal["unchanged", "random"] = "unchanged"
    """Initial values of the new weights. ``unchanged``: the model's predictions do not change; an untied output layer
    starts as a copy of the model's. ``random``: random values, also for an untied output layer (published)."""

    @property
    def unties(self) -> bool:
        """Whether the output layer is untied from the input embedding."""
        return False


def one_number(setting: str, arguments: list[str], what: str) -> dict[str, Any]:
    """Parses the ``arguments`` of a spec such as ``prefix:8`` into ``{setting: 8}``; without arguments, into ``{}``.

    Raises:
        ValueError: If the arguments are not one positive number; the message asks for "a number of ``what``".
    """
    if not arguments:
        return {}
    if len(arguments) > 1 or not (arguments[0].isdecimal() and int(arguments[0])):
        raise ValueError(f"must be followed by a number of {what} ({','.join(arguments)!r} given)")
    return {setting: int(arguments[0])}


class OutputProjection(nn.Linear):
    """The last linear layer of a conditioner, whose output is added to states or logits of the decoder.

    Its weights are initialised to zero if ``start`` is ``unchanged``, otherwise to small random numbers.
    """

    def __init__(self, inputs: int, outputs: int, start: str) -> None:
        self.is_zero_at_start = start == "unchanged"  # set before the base class initialises the weights
        super().__init__(inputs, outputs)

    def reset_parameters(self) -> None:
        """Sets the weights to zero or small random numbers, and the bias to zero."""
        if self.is_zero_at_start:
            nn.init.zeros_(self.weight)
        else:
            nn.init.normal_(self.weight, std=_SPREAD)
        nn.init.zeros_(self.bias)

    @property
    def is_zero(self) -> bool:
        """Whether all weights and the bias are zero, so that nothing is added."""
        return not (self.weight.any() or self.bias.any())

    @torch.no_grad()
    def resize(self, outputs: int) -> None:
        """Changes the number of outputs to ``outputs``; new outputs add zero."""
        kept = min(outputs, self.out_features)
        weight, bias = self.weight.new_zeros(outputs, self.in_features), self.bias.new_zeros(outputs)
        weight[:kept], bias[:kept] = self.weight[:kept], self.bias[:kept]
        trained = self.weight.requires_grad
        self.weight, self.bias = nn.Parameter(weight, trained), nn.Parameter(bias, trained)
        self.out_features = outputs


class Conditioner(nn.Module, ABC):
    """Base class of conditioners, which pass an encoder's states to a decoder: to its logits, layers or input.

    A subclass is in one file with its ``Config`` and is registered with ``@registry.register("name")``. Its method
    ``read`` computes, once per auxiliary text, everything that depends only on this text. The result is stored beside
    the KV cache, and other methods get it at every decoding step as ``kept``.

    Args:
        config: The conditioner's settings.
        dimensions: Sizes of the decoder; ``source`` is the width of the encoder's states.
        attention_heads: Number of the decoder's attention heads, for conditioners with attention.

    Raises:
        ValueError: If the conditioner does not support such a decoder; the message says why.
    """

    Config: ClassVar[type[ConditionerConfig]]
    virtual: int = 0
    """Number of positions that the conditioner inserts before every text."""
    changes_states: ClassVar[bool] = True
    """Whether the conditioner changes the hidden states that the output layer reads. If not, it can be trained from
    stored states."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_old_methods(cls, {"begin": "init_from_backbone"})

    def __init__(self, config: ConditionerConfig, dimensions: Dimensions, attention_heads: int) -> None:
        super().__init__()
        self.config: Any = config
        self.dimensions = dimensions
        assert dimensions.source is not None
        self.width: int = dimensions.source

    @abstractmethod
    def read(self, states: Float[Tensor, "B A E"], valid: Bool[Tensor, "B A"]) -> dict[str, Tensor]:
        """Computes ``kept``, a mapping from name to tensor (B, ...), from the encoder's last hidden ``states``.

        ``valid`` is False at padding, and True for at least one token of each auxiliary text.
        """

    def place_in(self, backbone: Any) -> None:
        """Called when the model is built, to prepare ``backbone``, for example by hooks, without changing its results.

        Raises:
            ValueError: If the conditioner cannot be inserted into the backbone.
        """

    def init_from_backbone(self, backbone: Any) -> None:
        """Called once, when the conditioner is attached, to initialise weights from the backbone.

        By default, if ``start`` is ``random``, an untied output layer of ``backbone`` is set to random numbers.

        Raises:
            ValueError: If the backbone lacks something that the conditioner needs.
        """
        if self.config.unties and self.config.start == "random":  # with the standard deviation of the pretrained layer
            layer = backbone.get_output_embeddings()
            with torch.no_grad():
                nn.init.normal_(layer.weight, std=layer.weight.float().std().item())
                if getattr(layer, "bias", None) is not None:
                    nn.init.zeros_(layer.bias)

    begin = init_from_backbone  # the old name, which plug-ins call on their base class

    def backbone_inputs(self, kept: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns extra keyword arguments for the backbone's forward, made from ``kept``."""
        return {}

    def before_text(self, kept: Mapping[str, Tensor]) -> Float[Tensor, "B P D"]:
        """Returns the embeddings of the ``virtual`` positions before every text."""
        raise NotImplementedError(f"{type(self).__name__} inserts nothing before a text")

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        """Returns the output layer to use in place of ``vocabulary``, such as one that adds an offset to the logits."""
        return vocabulary

    def downstream(self, backbone: Any) -> list[nn.Parameter]:
        """Returns the backbone's parameters that are applied after the conditioner."""
        return []

    def resized(self, vocab_size: int) -> None:
        """Called when the size of the vocabulary becomes ``vocab_size``."""

    @property
    def is_neutral(self) -> bool:
        """Whether the conditioner does not change predictions yet: it has output projections, and all are zero."""
        added = [module for module in self.modules() if isinstance(module, OutputProjection)]
        return bool(added) and all(module.is_zero for module in added)


registry: Registry[type[Conditioner]] = Registry("conditioner", Conditioner)
"""All conditioners by name."""


# -- Parsing and writing conditioner specs such as ``bergpt:2`` and ``lmh:max,published``.

grammar = Grammar(registry, ConditionerConfig, "bergpt")


def parse_conditioner(spec: str | Mapping[str, Any] | ConditionerConfig) -> ConditionerConfig:
    """Returns the config of a conditioner spec or a dictionary of settings; a config is returned unchanged.

    >>> parse_conditioner("LMH:max").pooling
    'max'
    >>> parse_conditioner({"conditioner": "bergpt:2", "tied": True}).last
    2
    >>> parse_conditioner("bergpt:published").trains
    'new'
    >>> parse_conditioner("bertgpt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    nextword.settings.registry.UnknownNameError: unknown conditioner 'bertgpt'. Did you mean 'bergpt'? Known: ...

    Raises:
        ValueError: If the name or a key is unknown (the message has the nearest known one), or a value is invalid.
    """
    return grammar.parse(spec)


def conditioner_spec(config: ConditionerConfig) -> str:
    """Returns the shortest spec from which ``parse_conditioner`` returns ``config``.

    >>> conditioner_spec(parse_conditioner({"conditioner": "bergpt", "last": 3}))
    'bergpt:3'
    """
    return grammar.write(config)
