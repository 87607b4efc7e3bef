"""The model's side of a sequence update: it continues prefixes of the batch, and what it wrote becomes the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from nextword.functional.padding import padded
from nextword.model.forward.auxiliary_inputs import auxiliary_rows
from nextword.model.forward.backbone_pass import Observation, observe
from nextword.model.forward.contexts import context_at
from nextword.model.forward.decoder_inputs import DecoderInputs, valid_places
from nextword.model.modes import as_in_evaluation
from nextword.model.unconstrained import plain_search
from nextword.objectives import Loss
from nextword.objectives.parts.processes import on_every_process
from nextword.objectives.sequence import SequenceConfig


@dataclass(frozen=True)
class Prefixes:
    """What the model is to continue, for one sequence update.

    Args:
        rows: Tokens of each prefix, without padding; for an encoder-decoder model each is a source.
        auxiliary: Inputs of the auxiliary text of each, for a conditioned model.
    """

    rows: list[Int[Tensor, "_"]]
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)

    def update(self, model: Any, targets: int) -> tuple[Observation, Loss]:
        """Lets the model continue them, looks at what it wrote, and makes the loss of it.

        Tokens are chosen without gradient and with a KV cache; one pass over all of them then gives the probability of
        each. That has the gradient of a pass token by token that keeps its graph through the cached states, because an
        argmax passes none on. All of it is as in evaluation: with dropout, the pass would see another model than the
        one that wrote.

        Args:
            model: A :class:`~nextword.model.modeling.NextWordModel` whose objective has sequence updates.
            targets: How many targets the batch has that the prefixes were taken from.
        """
        updates = model.objective.sequence
        length = updates.config.continuation
        with as_in_evaluation(model):
            texts = continued(model, self.rows, length, self.auxiliary)
            written = updates.written(texts[:, -length:])
            inputs, places = self._taught(model, texts, length)
            seen = observe(model, inputs)
            positions = torch.zeros(seen.states.shape[:2], dtype=torch.bool, device=places.device)
            context = context_at(model, seen, positions.scatter(1, places, written.asked))
            return seen, updates(model.next_word_head, context, written, targets)

    def _taught(self, model: Any, texts: Int[Tensor, "R T"], length: int) -> tuple[dict[str, Any], Int[Tensor, "R S"]]:
        """Inputs of the pass over what was written, and the place that predicts each of its last ``length`` tokens.

        Padding stands at the end here, where it moves no position of a text.
        """
        places = torch.arange(length, device=texts.device).expand(len(texts), -1)
        if model.config.is_encoder_decoder:
            ids, mask = padded(self.rows, side="right")
            decoder = {"decoder_input_ids": texts[:, :-1]}
        else:
            rows = [torch.cat([row, text[-length:-1]]) for row, text in zip(self.rows, texts, strict=True)]
            ids, mask = padded(rows, side="right")
            places = places + torch.tensor([[len(row) - 1] for row in self.rows], device=texts.device)
            decoder = {}
        return {"input_ids": ids, "attention_mask": mask, "use_cache": False, **decoder, **self.auxiliary}, places


def prefixes_of(model: Any, inputs: Mapping[str, Any]) -> Prefixes | None:
    """What a sequence update of this batch continues; None where this update is one of tokens.

    Called for every training batch, for it counts the updates. Without any token to start from (embeddings in place of
    ids, padding only, a cache that holds the beginning) the update is one of tokens, on all processes.

    Args:
        model: The model, in training.
        inputs: Arguments of its forward.
    """
    updates = model.objective.sequence
    if updates is None or not updates.advance():
        return None
    ids = inputs.get("input_ids")
    rows: list[Tensor] = []
    owners: list[int] = []
    if ids is not None and inputs.get("past_key_values") is None:
        given = DecoderInputs.of(ids, None, inputs.get("attention_mask"), model.backbone)
        for number, (text, valid) in enumerate(zip(given.ids, given.valid, strict=True)):
            own = [text[valid]] if model.config.is_encoder_decoder else cut(text[valid], updates.config)
            rows += own if valid.any() else []
            owners += [number] * len(own) if valid.any() else []
    if not on_every_process(bool(rows), model.device):
        return None
    return Prefixes(rows, auxiliary_rows(model, inputs, owners))


def cut(text: Int[Tensor, "_"], config: SequenceConfig) -> list[Int[Tensor, "_"]]:
    """Consecutive prefixes of a text, all of full length unless the text is shorter than one.

    >>> [len(prefix) for prefix in cut(torch.arange(500), SequenceConfig())]
    [50, 50, 50]
    >>> [len(prefix) for prefix in cut(torch.arange(30), SequenceConfig(prefixes=6))]
    [30]
    """
    wanted = config.prefixes or max(1, len(text) // (config.prefix + config.continuation))
    return list(text[: max(1, len(text) // config.prefix) * config.prefix].split(config.prefix)[:wanted])


def continued(
    model: Any, rows: list[Int[Tensor, "_"]], length: int, auxiliary: Mapping[str, Tensor]
) -> Int[Tensor, "R T"]:
    """What the model makes of each row: a beginning, and ``length`` tokens that it writes after it.

    It writes greedily, in its head's own way of decoding, and does not stop at the end token.
    """
    ids, mask = padded(rows, side="right" if model.config.is_encoder_decoder else "left")
    begun = 1 if model.config.is_encoder_decoder else ids.shape[1]
    with plain_search(model, stops=False, do_sample=False, max_length=begun + length):
        made: Tensor = model.generate(input_ids=ids, attention_mask=mask, **auxiliary)
    return made


def decoder_side(model: Any, inputs: Mapping[str, Any]) -> DecoderInputs:
    """The decoder's side of a batch that the backbone is not going to see, for its targets to be counted."""
    if not model.config.is_encoder_decoder:
        return DecoderInputs.of(inputs["input_ids"], None, inputs.get("attention_mask"), model.backbone)
    labels, mask = inputs["labels"], inputs.get("decoder_attention_mask")
    return DecoderInputs(labels, valid_places("decoder_attention_mask", mask, labels))


def expect_room(config: Any, sequence: SequenceConfig | None) -> None:
    """Raises ValueError where prefix and continuation are more than the model has positions for.

    Args:
        config: The wrapped model's configuration.
        sequence: Settings of sequence updates; None: there are none.
    """
    if sequence is None:
        return
    needed, said = (
        (1 + sequence.continuation, f"start token and seq.continuation ({sequence.continuation})")
        if config.is_encoder_decoder
        else (
            sequence.prefix + sequence.continuation,
            f"seq.prefix ({sequence.prefix}) and seq.continuation ({sequence.continuation})",
        )
    )
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and needed > limit:
        raise ValueError(
            f"objective: {said} are {needed} places, and the model has positions for {limit}; lower them, such as "
            f"+seq:{max(1, limit // 3)}x{max(1, limit // 3 * 2 - 1)}"
        )
