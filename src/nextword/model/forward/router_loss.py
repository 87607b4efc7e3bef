"""The loss of a backbone's routers, which keeps its tokens spread over its experts."""

from __future__ import annotations

from typing import Any

from torch import Tensor

_TERMS = {
    "aux_loss": ("router_aux_loss_coef", "aux_loss_coef"),
    "encoder_aux_loss": ("router_aux_loss_coef",),
    "decoder_aux_loss": ("router_aux_loss_coef",),
    "encoder_z_loss": ("router_z_loss_coef",),
    "decoder_z_loss": ("router_z_loss_coef",),
}
"""Terms among a backbone's outputs, and the names under which it keeps their coefficients."""


def router_loss(backbone: Any, outputs: Any) -> Tensor | None:
    """What a backbone adds to its loss where ``output_router_logits`` asks for its routers; None where nothing does.

    It adds this only where it is given labels itself, and a head's loss is made of its states.

    Args:
        backbone: A transformers language model.
        outputs: Those of its run. NLLB-MoE makes the terms from labels alone, so it adds nothing here.
    """
    terms = {name: outputs.get(name) for name in _TERMS}
    weighted = [_coefficient(backbone, name) * term for name, term in terms.items() if isinstance(term, Tensor)]
    return sum(weighted[1:], start=weighted[0]) if weighted else None


def _coefficient(backbone: Any, term: str) -> float:
    for owner in (backbone, backbone.config.get_text_config(decoder=True)):
        for name in _TERMS[term]:
            if isinstance(found := getattr(owner, name, None), int | float):
                return found
    raise AttributeError(f"{type(backbone).__name__} gives {term}, and no {' or '.join(_TERMS[term])} for it")
