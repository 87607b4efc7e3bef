"""What a conditioned model reads of a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nextword.conditioning.parts.auxiliary_tokenizer import AuxiliaryTokenizer
from nextword.inference.generation.prompts import Prompt


class SummaryInputs:
    """What a conditioned model reads of the summaries beside its prompt; nothing, where it has no conditioner.

    Each summary is read by the encoder once, however often it is asked for.

    Args:
        model: An attached model.
        auxiliary: Makes inputs of summaries; None: there is no encoder, so the model must have no conditioner.
    """

    def __init__(self, model: Any, auxiliary: AuxiliaryTokenizer | None) -> None:
        if model.conditioner is not None and auxiliary is None:
            raise ValueError("task.encoder: a conditioned model reads summaries with an encoder, and there is none")
        self.model, self.auxiliary = model, auxiliary
        self._states: dict[str, Tensor] = {}

    def __call__(self, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
        """Arguments of ``distribution`` and ``generate`` for the summaries of these prompts."""
        if self.model.conditioner is None or self.auxiliary is None:
            return {}
        summaries = [str(prompt.source) for prompt in prompts]
        inputs = {name: tensor.to(self.model.device) for name, tensor in self.auxiliary(summaries).items()}
        ids, mask = inputs.pop("aux_input_ids"), inputs.pop("aux_attention_mask")
        new = [row for row, summary in enumerate(summaries) if summary not in self._states]
        if new:
            states = self.model.encode(ids[new], mask[new])
            for row, encoded, count in zip(new, states, mask[new].sum(dim=1).tolist(), strict=True):
                self._states[summaries[row]] = encoded[:count]
        encoded = pad_sequence([self._states[summary] for summary in summaries], batch_first=True)
        copied = inputs if self.model.next_word_head.reads_source else {}
        return {"aux_states": encoded, "aux_attention_mask": mask, **copied}
