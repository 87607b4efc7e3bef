"""Reading distributions off a model of transformers as it is: nothing is attached, and its own forward is asked."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nextword.checking.ways_of_reading import BackboneReader
from nextword.model.head_cache.kv_cache import cache_argument


class Backbone:
    """A model's forward under the names of all its arguments.

    A class that hands on ``**kwargs`` hides them, and so does peft, whose adapters lie around the model's own class.

    Args:
        model: The model that is called.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.__class__ = type(type(model).__name__, (Backbone,), {})  # messages and titles name the model's class

    def __call__(self, **inputs: Any) -> Any:
        """What the model returns."""
        return self._model(**inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def forward(self) -> Any:
        """The model's, with the signature of the first class below that hides nothing."""
        return _Signed(self._model)


class _Signed:
    """A forward that says which arguments it takes."""

    def __init__(self, model: nn.Module) -> None:
        self.__signature__ = inspect.Signature(list(_named_arguments(model).values()))

    def __call__(self) -> None:
        raise NotImplementedError  # asked for its signature only


def _named_arguments(model: Any) -> dict[str, inspect.Parameter]:
    """The arguments that can be given by name to a model, which may hand some of them on unnamed."""
    found: dict[str, inspect.Parameter] = {}
    for owner in _owners(model):
        taken = inspect.signature(owner.forward).parameters.values()
        named = [one for one in taken if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        found |= {one.name: one.replace(kind=one.KEYWORD_ONLY) for one in named if one.name != "self"}
        if not any(one.kind == one.VAR_KEYWORD for one in taken):
            break
    return found


def _owners(model: Any) -> Iterator[Any]:
    """The classes with a forward of their own, from outside to inside, up to the model's own class in transformers."""
    while True:
        for owner in type(model).__mro__:
            if "forward" in vars(owner) and owner is not nn.Module:
                yield owner
        if not hasattr(model, "get_base_model"):  # peft's
            return
        model = model.get_base_model()


class BareModel:
    """A model as the properties of the checker see one, without a head or a conditioner.

    Args:
        model: A model of transformers, or one with adapters of peft around it.

    Raises:
        ValueError: The adapter is a learned prompt.
    """

    conditioner = None

    def __init__(self, model: Any) -> None:
        if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
            raise ValueError(
                "check: a learned prompt of peft stands before every call and shifts its places; "
                "give a function from prefixes to log-probabilities instead, with vocabulary=..."
            )
        self.backbone = Backbone(model)
        self.config, self.dtype = model.config, model.dtype
        self._cache_argument = cache_argument(self.backbone) or "past_key_values"

    def get_input_embeddings(self) -> Any:
        """The layer that reads tokens."""
        return self.backbone.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The layer that scores tokens; the one that reads them where a model does not name it."""
        return self.backbone.get_output_embeddings() or self.get_input_embeddings()


class ModelReader(BackboneReader):
    """Asks a model in its one way: the softmax of the scores that its forward returns."""

    def __init__(self, model: BareModel) -> None:
        super().__init__(model)
        self.mode = "one pass"
        self.name = ""

    @property
    def precision(self) -> torch.dtype:
        """Of the model's weights."""
        dtype: torch.dtype = self.model.dtype
        return dtype
