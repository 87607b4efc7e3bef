"""What the model is handed in each pass, and what is kept of it: tokens, mask and positions beside the KV cache.

Texts of a batch accept unequally many tokens. What a text rejects is taken out of the cache, and the shorter texts are
moved to its end again, so that padding lies before them only, as before any batch of prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.functional.padding import aligned_at_end, known_at_end
from nextword.model.head_cache.kv_cache import align, can_align

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

_PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
"""Arguments with an entry for each token that are not moved with the texts."""


def can_write_together(model: NextWordModel, arguments: dict[str, Any]) -> bool:
    """Whether texts of a batch may go on from different lengths.

    The cache must only grow, and positions must be told to the backbone or be distances.
    """
    if model.conditioner is not None and model.conditioner.virtual:
        return False
    if not can_align(arguments[model._cache_argument]) or any(arguments.get(name) is not None for name in _PER_TOKEN):
        return False
    if model.config.is_encoder_decoder:
        return hasattr(model.config.get_text_config(decoder=True), "relative_attention_num_buckets")
    positions = arguments.get("position_ids")
    return positions is None or positions.ndim == 2


class StepInputs:
    """The arguments of the passes: at first those given, of a model of ours on the tokens so far (B, T)."""

    def __init__(self, model: NextWordModel, ids: Int[Tensor, "B T"], arguments: dict[str, Any]) -> None:
        side = "decoder_" if model.config.is_encoder_decoder else ""
        self._mask, self._positions = f"{side}attention_mask", f"{side}position_ids"
        self._model, self._ids, self.arguments = model, ids, dict(arguments)
        self._drafted = 0
        mask = self.arguments.get(self._mask)
        if mask is None and len(ids) > 1:
            mask = self.arguments[self._mask] = torch.ones_like(ids)
        missing = torch.zeros(len(ids), dtype=torch.long) if mask is None else (mask.cumsum(-1) == 0).sum(-1)
        self.padding: list[int] = missing.tolist()

    def of_pass(self, drafted: Int[Tensor, "B W"]) -> dict[str, Any]:
        """The arguments of a pass over the last token of each text and the tokens drafted behind it."""
        self._drafted = drafted.shape[1]
        self._ids = torch.cat([self._ids, drafted], 1)
        prepared: dict[str, Any] = self._model.prepare_inputs_for_generation(
            self._ids,
            next_sequence_length=self._drafted + 1,
            is_first_iteration=False,
            **self._grown(self.arguments, {}, self._drafted),
        )
        prepared["logits_to_keep"] = self._drafted + 1
        return prepared

    def keep(self, outputs: Any, dropped: Sequence[int], last: Int[Tensor, "B 1"], finished: Sequence[bool]) -> None:
        """Forgets what a pass read and was rejected, the last ``dropped`` tokens of each text.

        It goes on with ``last``, which no pass has read, and looks no more at texts that are finished.
        """
        going_on = [row for row, done in enumerate(finished) if not done] or list(range(len(finished)))
        least = min(dropped[row] for row in going_on)
        if all(dropped[row] == least for row in going_on):
            outputs[self._model._cache_argument].crop(-least)
            self._ids = self._ids[:, : self._ids.shape[1] - least]
            arguments = self._grown(self.arguments, outputs, self._drafted - least)
        else:
            arguments = self._aligned(self._grown(self.arguments, outputs, self._drafted), dropped, going_on)
        if len(going_on) < len(finished):
            done = torch.tensor(finished, device=self._ids.device)[:, None]
            for name in (self._mask, self._positions):  # or positions would grow beyond what the backbone knows
                if arguments.get(name) is not None:
                    arguments[name] = arguments[name].masked_fill(done, 0)
        self.arguments = self._grown(arguments, outputs, 1)
        self._ids = torch.cat([self._ids, last], 1)

    def _aligned(self, arguments: dict[str, Any], dropped: Sequence[int], going_on: Sequence[int]) -> dict[str, Any]:
        """The arguments with the texts moved to their end, as they are in the cache then."""
        total = self._ids.shape[1]
        lengths = [total - gone - before for gone, before in zip(dropped, self.padding, strict=True)]
        length = max(lengths[row] for row in going_on)
        gone = torch.tensor(dropped, device=self._ids.device)
        align(arguments[self._model._cache_argument], gone, length)
        self._ids = aligned_at_end(self._ids, gone, length)
        self.padding = [max(0, length - held) for held in lengths]
        mask = arguments[self._mask]
        moved = arguments | {self._mask: known_at_end(mask.bool(), gone, length).to(mask.dtype)}
        if arguments.get(self._positions) is not None:
            moved[self._positions] = aligned_at_end(arguments[self._positions], gone, length)
        return moved

    def _grown(self, arguments: dict[str, Any], outputs: Any, count: int) -> dict[str, Any]:
        """The arguments with room for ``count`` more tokens of each text, and the cache of a pass."""
        update = self._model._update_model_kwargs_for_generation
        seq2seq = self._model.config.is_encoder_decoder
        if count:
            grown: dict[str, Any] = update(outputs, dict(arguments), is_encoder_decoder=seq2seq, num_new_tokens=count)
            return grown
        name = self._model._cache_argument
        return {**arguments, name: outputs[name]} if name in outputs else dict(arguments)
