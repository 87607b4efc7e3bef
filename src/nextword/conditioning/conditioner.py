"""The contract of a conditioner."""

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
"""Standard deviation of new weights that start at random, as that of GPT-2's."""


class ConditionerConfig(SpecSettings):
    """Settings that every conditioner has."""

    conditioner: str
    """Registered name of the conditioner."""
    trains: Literal["new", "downstream", "decoder", "all"] = "new"
    """What is trained: what is new (conditioner, head, an output layer of its own), also all that lies downstream of
    it, the whole decoder, or the auxiliary encoder too."""
    start: Literal["unchanged", "random"] = "unchanged"
    """Initial values of new weights: so that the model's distribution is what it was, or at random (published). An
    output layer of the model's own is new too: it begins as a copy of the pretrained one, or at random."""

    @property
    def unties(self) -> bool:
        """Whether the model gets an output layer of its own, apart from its input embedding."""
        return False


def one_number(setting: str, arguments: list[str], what: str) -> dict[str, Any]:
    """The arguments of a spec such as ``prefix:8`` as settings; ``what`` says in a message what the number is."""
    if not arguments:
        return {}
    if len(arguments) > 1 or not (arguments[0].isdecimal() and int(arguments[0])):
        raise ValueError(f"must be followed by a number of {what} ({','.join(arguments)!r} given)")
    return {setting: int(arguments[0])}


class OutputProjection(nn.Linear):
    """The last linear map of a conditioner, whose output is added to something of the decoder.

    With the ``start`` ``unchanged`` it begins with zeros, so that nothing is added, else with small random weights.
    """

    def __init__(self, inputs: int, outputs: int, start: str) -> None:
        self.is_zero_at_start = start == "unchanged"  # before the base class, which starts the weights
        super().__init__(inputs, outputs)

    def reset_parameters(self) -> None:
        """Zeros, or small random weights; no bias."""
        if self.is_zero_at_start:
            nn.init.zeros_(self.weight)
        else:
            nn.init.normal_(self.weight, std=_SPREAD)
        nn.init.zeros_(self.bias)

    @property
    def is_zero(self) -> bool:
        """Whether it adds nothing."""
        return not (self.weight.any() or self.bias.any())

    @torch.no_grad()
    def resize(self, outputs: int) -> None:
        """Another number of outputs; new ones add nothing."""
        kept = min(outputs, self.out_features)
        weight, bias = self.weight.new_zeros(outputs, self.in_features), self.bias.new_zeros(outputs)
        weight[:kept], bias[:kept] = self.weight[:kept], self.bias[:kept]
        trained = self.weight.requires_grad
        self.weight, self.bias = nn.Parameter(weight, trained), nn.Parameter(bias, trained)
        self.out_features = outputs


class Conditioner(nn.Module, ABC):
    """Brings what an encoder read into a decoder: its scores, its layers, or what stands before its text.

    A concrete conditioner is final, stands in one file of ``nextword/conditioning`` with its ``Config``, and is found
    through ``@registry.register("name")``. What depends on the auxiliary text alone is made once (``read``), kept
    beside the KV cache and moved along with it, and given back at every step as ``kept``.

    Args:
        config: The conditioner's settings.
        dimensions: Sizes of the decoder; ``source`` is the width of the encoder's states.
        attention_heads: Attention heads of the decoder, for conditioners that attend.

    Raises:
        ValueError: The conditioner cannot work on such a model; the message says why.
    """

    Config: ClassVar[type[ConditionerConfig]]
    virtual: int = 0
    """Positions that it puts before every text."""

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
        """What the steps need of an auxiliary text, by name, (B, ...) each, from the encoder's last hidden states.

        ``valid`` is False at padding; every row has a token.
        """

    def place_in(self, backbone: Any) -> None:
        """Called where the model is built: prepares the backbone, whose weights and own behaviour stay as they are.

        Raises:
            ValueError: The backbone has no position for it.
        """

    def init_from_backbone(self, backbone: Any) -> None:
        """Called once when the conditioner is attached, after it has its weights; a new output layer begins here.

        Raises:
            ValueError: The backbone does not do what the conditioner needs.
        """
        if self.config.unties and self.config.start == "random":  # as widely spread as the pretrained one
            layer = backbone.get_output_embeddings()
            with torch.no_grad():
                nn.init.normal_(layer.weight, std=layer.weight.float().std().item())
                if getattr(layer, "bias", None) is not None:
                    nn.init.zeros_(layer.bias)

    begin = init_from_backbone  # the name that it had: plug-ins call it of their base class

    def backbone_inputs(self, kept: Mapping[str, Tensor]) -> dict[str, Any]:
        """Further arguments of the backbone's forward."""
        return {}

    def before_text(self, kept: Mapping[str, Tensor]) -> Float[Tensor, "B P D"]:
        """Embeddings at the ``virtual`` positions before every text."""
        raise NotImplementedError(f"{type(self).__name__} puts nothing before a text")

    def output_layer(self, vocabulary: Vocabulary, kept: Mapping[str, Tensor]) -> Vocabulary:
        """What turns states into scores, a row for each sequence."""
        return vocabulary

    def downstream(self, backbone: Any) -> list[nn.Parameter]:
        """Parameters of the backbone that act on what the conditioner has changed."""
        return []

    def resized(self, vocab_size: int) -> None:
        """Called when the vocabulary has another number of tokens."""

    @property
    def is_neutral(self) -> bool:
        """Whether it changes nothing yet: it adds something, and everything that it adds is zero."""
        added = [module for module in self.modules() if isinstance(module, OutputProjection)]
        return bool(added) and all(module.is_zero for module in added)


registry: Registry[type[Conditioner]] = Registry("conditioner", Conditioner)
"""All conditioners by name."""


# -- Conditioner specs: ``bergpt:2``, ``lmh:max,published`` and the like, to a typed config and back.

grammar = Grammar(registry, ConditionerConfig, "bergpt")


def parse_conditioner(spec: str | Mapping[str, Any] | ConditionerConfig) -> ConditionerConfig:
    """The typed config of a conditioner spec, of a config written out in full, or of a config as it is.

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
        ValueError: Unknown name (with the nearest known one), unknown key, or arguments that do not fit.
    """
    return grammar.parse(spec)


def conditioner_spec(config: ConditionerConfig) -> str:
    """The shortest spec that this config comes back from.

    >>> conditioner_spec(parse_conditioner({"conditioner": "bergpt", "last": 3}))
    'bergpt:3'
    """
    return grammar.write(config)
