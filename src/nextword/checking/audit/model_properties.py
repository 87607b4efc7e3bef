"""Properties of transformers models: the returned loss, unrounded scores, and equal results in float64."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nextword.checking.property import Case, Deviation, Property, compared
from nextword.checking.readers import BackboneReader, accepts, inputs_of
from nextword.functional.padding import IGNORED_LABEL
from nextword.model.head_cache.kv_cache import cache_argument
from nextword.settings.setting_names import either

_SMALL = 20_000_000
"""Maximum number of parameters of a model for which a second copy in another precision is made."""


def _loss(reader: Any, case: Case) -> Iterator[Deviation]:
    batch = case.batch
    targets = torch.full_like(batch.ids, IGNORED_LABEL)
    targets[:, :-1] = torch.where(batch.mask[:, 1:], batch.ids[:, 1:], IGNORED_LABEL)
    counted = targets[batch.mask]
    if not (counted != IGNORED_LABEL).any():
        return
    # labels of an encoder-decoder model are at the positions that predict them, labels of a decoder at their own
    shifted = case.model.config.is_encoder_decoder
    labels = targets if shifted else batch.ids.masked_fill(~batch.mask, IGNORED_LABEL)
    loss = case.model.backbone(**inputs_of(case.model, batch), labels=labels).loss
    kept = counted != IGNORED_LABEL
    told = reader.log_probs(batch)[kept].gather(1, counted[kept][:, None])
    steps = -float(told.double().mean())
    off = abs(float(loss) - steps) / max(1.0, abs(steps))
    yield Deviation(
        "the loss", off, f"the loss of {int(kept.sum())} tokens is {float(loss):.6g}, but their mean is {steps:.6g}"
    )


def _rounded(reader: Any, case: Case) -> Iterator[Deviation]:
    # if all scores can be represented in a coarser format, they were rounded to it, whatever the model's precision is
    scores = case.model.backbone(**inputs_of(case.model, case.batch)).logits[case.batch.mask]
    finite = scores[torch.isfinite(scores)]
    for coarse in (torch.bfloat16, torch.float16):
        if torch.finfo(coarse).eps <= torch.finfo(reader.precision).eps or finite.unique().numel() < 2:
            continue
        through = bool((finite.to(coarse).to(finite.dtype) == finite).all())
        name = str(coarse).removeprefix("torch.")
        yield Deviation("", torch.finfo(coarse).eps / 2 if through else 0.0, f"all scores are numbers of {name}")


def _in_double(reader: Any, case: Case) -> Iterator[Deviation]:
    exact = ModelReader(BareModel(copy.deepcopy(case.model.backbone._model).double()))
    try:
        expected = exact.log_probs(case.batch)
    except RuntimeError:  # an operation does not support float64, or the model makes tensors in another precision
        return
    yield compared("against float64", reader.log_probs(case.batch), expected, case.batch)


def _large(model: Any) -> str:
    size = sum(weight.numel() for weight in model.backbone.parameters())
    return (
        f"a float64 copy of {size:,} weights is made only with {either('--thorough', 'thorough=True')}"
        if size > _SMALL
        else ""
    )


LOSS = Property(
    name="loss",
    fault="score-is-not-its-steps",
    meaning="the loss that the model returns is the mean over its tokens",
    look_at="Check the labels, label smoothing, and whether padding is counted.",
    measure=_loss,
    in_single=True,
    applies=lambda model: "" if accepts(model, "labels") else "the model returns no loss",
)
ROUNDED = Property(
    name="rounded scores",
    fault="precision",
    meaning="scores are not rounded to a lower precision than the model's",
    look_at="Look for a cast to half precision before the softmax.",
    measure=_rounded,
)
DOUBLE = Property(
    name="float64",
    fault="precision",
    meaning="in float64 the model gives the same results up to rounding",
    look_at="Look for a cast to a lower precision, or a difference of large numbers.",
    measure=_in_double,
    applies=_large,
    nothing="the model cannot compute in float64",
    reruns=True,
)


# -- Reading the distributions of a transformers model by its own forward. Nothing is attached to the model.


class Backbone:
    """Wraps a model so that the signature of its ``forward`` names all arguments.

    The model's own signature hides names if its ``forward`` passes ``**kwargs``, as peft's wrapper does.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.__class__ = type(type(model).__name__, (Backbone,), {})  # so that messages name the model's class

    def __call__(self, **inputs: Any) -> Any:
        """Call the wrapped model."""
        return self._model(**inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def forward(self) -> Any:
        """An object with the signature of the model's forward, which names all arguments. It cannot be called."""
        return _Signed(self._model)


class _Signed:
    def __init__(self, model: nn.Module) -> None:
        self.__signature__ = inspect.Signature(list(_named_arguments(model).values()))

    def __call__(self) -> None:
        raise NotImplementedError  # only the signature of this method is used


def _named_arguments(model: Any) -> dict[str, inspect.Parameter]:
    """The argument names of a model's forward, which may pass some arguments to an inner class as ``**kwargs``."""
    found: dict[str, inspect.Parameter] = {}
    for owner in _owners(model):
        taken = inspect.signature(owner.forward).parameters.values()
        named = [one for one in taken if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        found |= {one.name: one.replace(kind=one.KEYWORD_ONLY) for one in named if one.name != "self"}
        if not any(one.kind == one.VAR_KEYWORD for one in taken):
            break
    return found


def _owners(model: Any) -> Iterator[Any]:
    """The classes that define a forward, from the outermost class to the model's own class in transformers."""
    while True:
        for owner in type(model).__mro__:
            if "forward" in vars(owner) and owner is not nn.Module:
                yield owner
        if not hasattr(model, "get_base_model"):  # only peft's classes have this method
            return
        model = model.get_base_model()


class BareModel:
    """Gives a transformers model, possibly with peft adapters, the interface that the checker needs.

    Raises:
        ValueError: If the active peft adapter is a learned prompt.
    """

    conditioner = None

    def __init__(self, model: Any) -> None:
        if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
            raise ValueError(
                "check: must be given a model without a learned prompt of peft, which shifts positions in every "
                "call; give a function from prefixes to log-probabilities instead, with vocabulary=..."
            )
        self.backbone = Backbone(model)
        self.config, self.dtype = model.config, model.dtype
        self._cache_argument = cache_argument(self.backbone) or "past_key_values"

    def get_input_embeddings(self) -> Any:
        """The input embedding layer."""
        return self.backbone.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """The output embedding layer, or the input embeddings if the model does not name an output layer."""
        return self.backbone.get_output_embeddings() or self.get_input_embeddings()


class ModelReader(BackboneReader):
    """Reads a model's log-probabilities: the log-softmax of the logits that its forward returns."""

    def __init__(self, model: BareModel) -> None:
        super().__init__(model)
        self.mode = "one pass"
        self.name = ""

    @property
    def precision(self) -> torch.dtype:
        """Precision of the model's weights."""
        dtype: torch.dtype = self.model.dtype
        return dtype
