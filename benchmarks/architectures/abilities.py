"""What a language model must be able to do, asked in the same way of a bare model and of one with a head.

Each ability gives a deviation: the largest difference of two sets of log-probabilities that should be the same,
relative to the size of their row, as ``nw.check`` measures it. What raises is unable.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

import nextword as nw
from architectures.probes import NEW_TOKENS, Probe
from nextword.checking.readers import deviation

Ability = Callable[[Any, Probe], float]


class UnableError(Exception):
    """A model did something, and it is not what it should be."""


def _written(model: Any, prompts: dict[str, Tensor], **settings: Any) -> Any:
    torch.manual_seed(0)
    # every text is as long as the others: where one ends does not matter here
    settings = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False} | settings
    with torch.no_grad():
        return model.generate(**prompts, return_dict_in_generate=True, output_logits=True, **settings)


def _difference(one: Any, other: Any, row: int, other_row: int) -> float:
    """Between what two runs of ``generate`` knew when they wrote a row, up to where they wrote different tokens."""
    ours, theirs = one.sequences[row, -NEW_TOKENS:], other.sequences[other_row, -NEW_TOKENS:]
    worst = 0.0
    for step, (mine, its) in enumerate(zip(one.logits, other.logits, strict=True)):
        pair = mine[row][None].double().log_softmax(-1), its[other_row][None].double().log_softmax(-1)
        if any(bool(scores.isnan().any()) for scores in pair):
            raise UnableError(f"NaN among the scores of step {step}")
        worst = max(worst, deviation(*pair))
        if ours[step] != theirs[step]:
            break
    return worst


def cached(model: Any, probe: Probe) -> float:
    """``generate`` with a cache is ``generate`` without."""
    having, lacking = (_written(model, probe.prompts, use_cache=use) for use in (True, False))
    return max(_difference(having, lacking, row, row) for row in range(len(probe.prompts["input_ids"])))


def padded(model: Any, probe: Probe) -> float:
    """A text in a batch, padded, is continued as it is alone."""
    return _difference(_written(model, probe.prompts), _written(model, probe.second), 1, 0)


def beams(model: Any, probe: Probe) -> float:
    """Beam search with a cache is beam search without."""
    found = [
        _written(model, probe.prompts, use_cache=use, num_beams=2, output_scores=True).sequences_scores
        for use in (True, False)
    ]
    return deviation(*(scores[:, None] for scores in found))


def trained(model: Any, probe: Probe) -> float:
    """A training step with labels alone has a finite loss and finite gradients, not all zero."""
    model.train()
    try:
        torch.manual_seed(0)
        loss = model(**probe.training).loss
        if not bool(loss.isfinite()):
            raise UnableError(f"the loss is {loss.item()}")
        loss.backward()
        gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
        broken = [name for name, gradient in gradients.items() if not bool(gradient.isfinite().all())]
        if broken:
            raise UnableError(f"{len(broken)} gradients are not finite, {broken[0]} the first of them")
        if not any(bool(gradient.any()) for gradient in gradients.values()):
            raise UnableError("all gradients are zero")
    finally:
        model.zero_grad(set_to_none=True)
        model.eval()
    return 0.0


def saved(model: Any, probe: Probe) -> float:
    """Saved and loaded, it gives the same."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        again = _loaded(model, folder).eval()
        return deviation(*(one(**probe.reading).logits.double().log_softmax(-1) for one in (model, again)))


def _loaded(model: PreTrainedModel, folder: str) -> Any:
    is_ours = isinstance(model, nw.model.modeling.NextWordModel)
    return nw.load(folder) if is_ours else type(model).from_pretrained(folder)


ABILITIES: dict[str, Ability] = {
    "cached = uncached": cached,
    "padded = alone": padded,
    "beams": beams,
    "training step": trained,
    "save and load": saved,
}
"""Name to ability, in the order in which they are asked for."""
