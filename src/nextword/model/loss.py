"""From labels to targets, and from these to the loss of a pass."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nextword.model.contexts import context_at
from nextword.model.continuation import decoder_side, prefixes_of
from nextword.model.inputs import DecoderInputs, expect_known_ids
from nextword.model.observe import Observation, observe
from nextword.model.vocabulary import OutputLayer
from nextword.objectives import Loss

IGNORED = -100
"""Label of a position that is no target, as everywhere in transformers."""


def observed_with_loss(model: Any, inputs: dict[str, Any], labels: Tensor | None) -> tuple[Observation, Loss | None]:
    """One pass, and the loss where there are labels; in a sequence update both are of what the model writes."""
    if labels is None:
        return observe(model, inputs), None
    prefixes = prefixes_of(model, inputs) if model.training else None
    if prefixes is not None:
        _, targets = _targets(model, decoder_side(model, inputs, labels), labels)
        return prefixes.update(model, int((targets != IGNORED).sum()))
    seen = observe(model, inputs)
    labels, targets = _targets(model, seen.decoder, labels)
    counted = targets != IGNORED
    context = context_at(model, seen.with_labels(labels), counted)
    return seen, model.objective(model.next_word_head, context, targets[counted])


def _targets(model: Any, decoder: DecoderInputs, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The labels without those of padding, and what each position has to predict."""
    if labels.shape != decoder.ids.shape:
        raise ValueError(
            f"labels: shape {tuple(labels.shape)}, expected that of the tokens, {tuple(decoder.ids.shape)}"
        )
    labels = labels.masked_fill(~decoder.valid, IGNORED)
    expect_known_ids("labels", labels, OutputLayer(model.backbone).size, ignored=IGNORED)
    if model.config.is_encoder_decoder:
        return labels, labels
    # the state at a place predicts the token after it
    return labels, nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
