"""From labels to targets, and from these to the loss of a pass."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nextword.model.forward.backbone_pass import Observation, observe
from nextword.model.forward.contexts import context_at
from nextword.model.forward.decoder_inputs import DecoderInputs, expect_ids, expect_known_ids
from nextword.model.forward.output_layer import OutputLayer
from nextword.model.sequence_update import decoder_side, prefixes_of
from nextword.objectives import Loss

IGNORED = -100
"""Label of a position that is no target, as everywhere in transformers."""


def observed_with_loss(model: Any, inputs: dict[str, Any]) -> tuple[Observation, Loss | None]:
    """One pass, and the loss where there are labels; in a sequence update both are of what the model writes.

    Args:
        model: A :class:`~nextword.model.modeling.NextWordModel`.
        inputs: Arguments of its forward; ``labels`` and ``shift_labels`` name the targets.

    Raises:
        ValueError: Labels that are no whole numbers, or do not fit the tokens.
    """
    given = {name: inputs[name] for name in ("labels", "shift_labels") if inputs.get(name) is not None}
    if not given:
        return observe(model, inputs), None
    if "shift_labels" in given and model.config.is_encoder_decoder:
        raise ValueError(
            "shift_labels: for decoder-only models; an encoder-decoder model's targets are never shifted, so give them "
            "as labels"
        )
    given = {name: expect_ids(name, labels) for name, labels in given.items()}
    inputs = inputs | given
    prefixes = prefixes_of(model, inputs) if model.training else None
    if prefixes is not None:
        _, targets = _targets(model, decoder_side(model, inputs), **given)
        return prefixes.update(model, int((targets != IGNORED).sum()))
    seen = observe(model, inputs)
    labels, targets = _targets(model, seen.decoder, **given)
    counted = targets != IGNORED
    context = context_at(model, seen.with_labels(labels), counted)
    return seen, model.objective(model.next_word_head, context, targets[counted])


def _targets(
    model: Any, decoder: DecoderInputs, labels: Tensor | None = None, shift_labels: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The label of each place, and what the state at each place has to predict; ``IGNORED`` where there is nothing."""

    def known(name: str, given: Tensor) -> Tensor:
        if given.shape != decoder.ids.shape:
            raise ValueError(
                f"{name}: must be as the tokens are, {tuple(decoder.ids.shape)} (shape {tuple(given.shape)} given)"
            )
        given = given.masked_fill(~decoder.valid, IGNORED)
        expect_known_ids(name, given, OutputLayer(model.backbone).size, ignored=IGNORED)
        return given

    targets = None if shift_labels is None else known("shift_labels", shift_labels)
    if labels is None:
        assert targets is not None
        return nn.functional.pad(targets[:, :-1], (1, 0), value=IGNORED), targets
    labels = known("labels", labels)
    if model.config.is_encoder_decoder:
        return labels, labels
    if targets is None:
        # the state at a place predicts the token after it; at padding there is no such state
        targets = nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED).masked_fill(~decoder.valid, IGNORED)
    return labels, targets
