"""What transformers asks of a wrapped model when it makes, casts and fills its weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from nextword.conditioning.encoder import POOLER


class Loading:
    """The part of a wrapped model that its weights are made and loaded by; to be mixed into a PreTrainedModel."""

    _keys_to_ignore_on_load_missing = [rf"auxiliary_encoder\.{POOLER}"]  # noqa: RUF012  (as transformers declares it)

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        return True  # that of the backbone, where it has experts

    def _init_weights(self, module: nn.Module) -> None:
        # the backbone initialises itself; of the head, whatever a checkpoint did not fill
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()

    def _get_dtype_plan(self, dtype: torch.dtype) -> dict[str, torch.dtype]:
        """Names of weights that keep single precision: those of the models inside, in these models alone.

        transformers looks for a name such as T5's ``wo`` anywhere, and would find it in ``next_word_head``.
        """
        plan: dict[str, torch.dtype] = {}
        inside: Any
        for prefix, inside in self.named_children():  # type: ignore[attr-defined]
            if isinstance(inside, PreTrainedModel):
                # "*" stands for any characters here, "." for any one
                plan |= {rf"^{prefix}\.*{name}": kept for name, kept in inside._get_dtype_plan(dtype).items()}
        return plan
