"""Properties of models of transformers: the loss that they return, what they draw, and other precisions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch

from nextword.checking.audit.model_reading import BareModel, ModelReader
from nextword.checking.property import Case, Deviation, Property, compared
from nextword.checking.ways_of_reading import inputs_of
from nextword.functional.padding import IGNORED_LABEL
from nextword.settings.setting_names import either

_SMALL = 20_000_000
"""Parameters of which a second copy, in another precision, costs nothing worth mentioning."""


def _loss(reader: Any, case: Case) -> Iterator[Deviation]:
    batch = case.batch
    targets = torch.full_like(batch.ids, IGNORED_LABEL)
    targets[:, :-1] = torch.where(batch.mask[:, 1:], batch.ids[:, 1:], IGNORED_LABEL)
    counted = targets[batch.mask]
    if not (counted != IGNORED_LABEL).any():
        return
    # an encoder-decoder's labels stand where they are predicted, a decoder's where they are read
    shifted = case.model.config.is_encoder_decoder
    labels = targets if shifted else batch.ids.masked_fill(~batch.mask, IGNORED_LABEL)
    loss = case.model.backbone(**inputs_of(case.model, batch), labels=labels).loss
    kept = counted != IGNORED_LABEL
    told = reader.log_probs(batch)[kept].gather(1, counted[kept][:, None])
    steps = -float(told.double().mean())
    off = abs(float(loss) - steps) / max(1.0, abs(steps))
    yield Deviation(
        "the loss", off, f"the loss of {int(kept.sum())} tokens is {float(loss):.6g}, their mean {steps:.6g}"
    )


def _rounded(reader: Any, case: Case) -> Iterator[Deviation]:
    """Scores that are all numbers of a coarser format went through it, whatever the model's precision."""
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
    except RuntimeError:  # of a kernel that knows no float64, or of tensors that a model makes in another precision
        return
    yield compared("against float64", reader.log_probs(case.batch), expected, case.batch)


def _large(model: Any) -> str:
    size = sum(weight.numel() for weight in model.backbone.parameters())
    return (
        f"a copy in float64 of {size:,} weights is made by {either('--thorough', 'thorough=True')} only"
        if size > _SMALL
        else ""
    )


LOSS = Property(
    name="loss",
    fault="score-is-not-its-steps",
    meaning="the loss that the model returns is the mean over its tokens",
    look_at="Look at labels, label smoothing, and what of the padding is counted.",
    measure=_loss,
    in_single=True,
    applies=lambda model: "" if "labels" in _arguments(model) else "the model returns no loss",
)
ROUNDED = Property(
    name="rounded scores",
    fault="precision",
    meaning="scores are not rounded to a coarser format than the model's",
    look_at="Look for a cast to half precision before the softmax.",
    measure=_rounded,
)
DOUBLE = Property(
    name="float64",
    fault="precision",
    meaning="in float64 the model gives the same within what its own precision can hold",
    look_at="Look for a cast to a coarser precision, or a difference of large numbers.",
    measure=_in_double,
    applies=_large,
    nothing="the model cannot compute in float64",
    reruns=True,
)


def _arguments(model: Any) -> Any:
    import inspect

    return inspect.signature(model.backbone.forward).parameters
