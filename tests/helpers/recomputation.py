"""The oracle: the distribution at every generated token, from one pass over the complete sequence without a cache."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1e-5


def generated(model: Any, input_ids: Tensor, **settings: Any) -> Any:
    """``model.generate`` with the logits of each step; the seed is always the same."""
    torch.manual_seed(7)
    return model.generate(input_ids, return_dict_in_generate=True, output_logits=True, **settings)


def step_log_probs(out: Any) -> Tensor:
    """Log-probabilities (rows, new tokens, V) from which each token of the returned sequences was chosen."""
    steps = torch.stack(list(out.logits))
    beams = getattr(out, "beam_indices", None)
    chosen = steps.transpose(0, 1) if beams is None else steps[torch.arange(len(steps)), beams[:, : len(steps)]]
    return chosen.double().log_softmax(-1)


def full_log_probs(model: Any, out: Any, inputs: dict[str, Tensor]) -> Tensor:
    """The same from one pass of ``model.distribution`` over the returned sequences."""
    sequences, new = out.sequences, len(out.logits)
    copies = len(sequences) // len(inputs["input_ids"])
    inputs = {name: tensor.repeat_interleave(copies, 0) for name, tensor in inputs.items()}
    if model.config.is_encoder_decoder:
        arguments = {**inputs, "decoder_input_ids": sequences[:, :-1]}
    else:
        auxiliary = {name: tensor for name, tensor in inputs.items() if name.startswith(("aux_", "source_"))}
        arguments = _decoder_arguments(model, sequences[:, :-1], inputs.get("attention_mask")) | auxiliary
    with torch.no_grad():
        log_probs = model.distribution(**arguments, use_cache=False).log_probs()
    return log_probs.unflatten(0, (len(sequences), -1))[:, -new:].double()


def _decoder_arguments(model: Any, ids: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
    if mask is None:
        return {"input_ids": ids}
    mask = torch.cat([mask, mask.new_ones(len(ids), ids.shape[1] - mask.shape[1])], 1)
    arguments = {"input_ids": ids, "attention_mask": mask}
    if "position_ids" in inspect.signature(model.backbone.forward).parameters:
        arguments["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
    return arguments


def distance(model: Any, out: Any, inputs: dict[str, Tensor]) -> float:
    """Largest difference between the probabilities of generation and of the recomputation.

    Log-probabilities are compared where they matter to anybody; below e**-30 both must merely be small.
    """
    ours, full = step_log_probs(out).clamp_min(-30.0), full_log_probs(model, out, inputs).clamp_min(-30.0)
    assert ours.shape == full.shape
    assert not ours.isnan().any()
    return (ours - full).abs().max().item()


def assert_as_recomputed(model: Any, out: Any, inputs: dict[str, Tensor], tolerance: float = TOLERANCE) -> None:
    """Every step of a generation saw the distribution that the complete sequence gives."""
    gap = distance(model, out, inputs)
    assert gap < tolerance, f"log-probabilities differ by {gap:.3g} from those of the complete sequence"
