"""What transformers asks of a wrapped model when it makes, casts and fills its weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from nextword.conditioning.parts.auxiliary_encoder import POOLER
from nextword.model.forward.output_layer import expect_state_scale


class Loading:
    """The part of a wrapped model that its weights are made and loaded by; to be mixed into a PreTrainedModel."""

    _keys_to_ignore_on_load_missing = [rf"auxiliary_encoder\.{POOLER}"]  # noqa: RUF012  (as transformers declares it)

    # Quantisers leave these alone and reduce the backbone only. That is all transformers does with these names here:
    # the dtype of every weight is decided in ``_get_dtype_plan``.
    _keep_in_fp32_modules = ["next_word_head", "conditioner", "auxiliary_encoder", "objective"]  # noqa: RUF012

    @property
    def _keys_to_ignore_on_save(self) -> set[str]:
        """Weights that are tied to others: not saved, so Trainer need not miss them when it resumes."""
        kept: set[str] = vars(self).get("_ignored_on_save", set())
        tied: dict[str, str] = getattr(self, "all_tied_weights_keys", {})
        read = self.get_parameter  # type: ignore[attr-defined]
        return kept | {name for name, source in tied.items() if read(name) is read(source)}

    @_keys_to_ignore_on_save.setter
    def _keys_to_ignore_on_save(self, names: set[str]) -> None:
        vars(self)["_ignored_on_save"] = names

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As in transformers; what the configuration says of the output layer is proved where a head relies on it."""
        loaded = super().from_pretrained(*args, **kwargs)  # type: ignore[misc]
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        scale = model.config.state_scale
        if scale is not None and model.next_word_head.layers and _is_here(model):
            expect_state_scale(model.backbone, scale)
        return loaded

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        return True  # that of the backbone, where it has experts

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """The models inside first, as they are made alone.

        transformers takes our class for custom code, and of such it never makes modules without weights of their own:
        what Falcon-H1's does for the buffers of its layers would be left out.
        """
        for inside in self.children():  # type: ignore[attr-defined]
            if isinstance(inside, PreTrainedModel):
                inside.initialize_weights()
        super().initialize_weights()  # type: ignore[misc]

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


def _is_here(model: PreTrainedModel) -> bool:
    """Whether this process has all of a model's weights, so that it can be asked something."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed and not any(parameter.is_meta for parameter in model.parameters())
