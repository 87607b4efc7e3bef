"""The model's side of a sequence update: it continues prefixes of the batch, and what it wrote becomes the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from nextword.functional.padding import padded
from nextword.model.forward.forward_batch import ForwardBatch
from nextword.model.generation import unconstrained_generation
from nextword.objectives.objective import SequenceConfig, Written, on_every_process

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class Prefixes:
    """What the model is to continue.

    Args:
        rows: Tokens of each prefix, without padding; for an encoder-decoder model each is a source.
        auxiliary: Inputs of the auxiliary text of each, for a conditioned model.
    """

    rows: list[Int[Tensor, "_"]]
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Continuations:
    """What the model wrote after R prefixes, as a batch to learn from.

    Args:
        arguments: Arguments of the forward pass over all that was written.
        written: The S tokens after each prefix, and which of them it repeats.
        positions: Positions of that pass that predict the tokens whose probability is asked for.
    """

    arguments: Mapping[str, Any]
    written: Written
    positions: Bool[Tensor, "R T"]


def prefixes_of(model: NextWordModel, batch: ForwardBatch) -> Prefixes | None:
    """What a sequence update of this batch continues; None where this update is one of tokens.

    Called for every training batch, for it counts the updates. Without any token to start from (embeddings in place of
    ids, padding only, a cache that holds the beginning) the update is one of tokens, on all processes.
    """
    updates, source = model.objective.sequence, batch.source
    if updates is None or not updates.advance():
        return None
    begun, valid = (batch.input_ids, batch.valid) if source is None else (source.ids, source.valid)
    if batch.texts is not None and begun is not None and valid is not None:
        begun, valid = batch.texts.laid_out(begun), batch.texts.laid_out(valid)
    rows: list[Tensor] = []
    owners: list[int] = []
    if begun is not None and valid is not None and batch.past.kv_cache is None:
        for owner, (ids, counts) in enumerate(zip(begun, valid, strict=True)):
            tokens = ids[counts]
            prefixes = [tokens] if model.config.is_encoder_decoder else cut_prefixes(tokens, updates.config)
            rows += prefixes if len(tokens) else []
            owners += [owner] * len(prefixes) if len(tokens) else []
    if not on_every_process(bool(rows), model.device):
        return None
    auxiliary = batch.auxiliary.arguments.items()
    return Prefixes(rows, {name: of[torch.tensor(owners, device=of.device)] for name, of in auxiliary})


def cut_prefixes(text: Int[Tensor, "_"], config: SequenceConfig) -> list[Int[Tensor, "_"]]:
    """Consecutive prefixes of a text, all of full length unless the text is shorter than one.

    >>> [len(prefix) for prefix in cut_prefixes(torch.arange(500), SequenceConfig())]
    [50, 50, 50]
    >>> [len(prefix) for prefix in cut_prefixes(torch.arange(30), SequenceConfig(prefixes=6))]
    [30]
    """
    wanted = config.prefixes or max(1, len(text) // (config.prefix + config.continuation))
    return list(text[: max(1, len(text) // config.prefix) * config.prefix].split(config.prefix)[:wanted])


def write_greedily(model: NextWordModel, prefixes: Prefixes) -> Continuations:
    """Lets the model continue prefixes: greedily, in its head's own way of decoding, beyond any end token.

    Tokens are chosen without gradient and with a KV cache; one pass over all of them then gives the probability of
    each. That has the gradient of a pass token by token that keeps its graph through the cached states, because an
    argmax passes none on. Both are to be made as in evaluation: with dropout, the pass would see another model than the
    one that wrote.
    """
    updates, seq2seq = model.objective.sequence, model.config.is_encoder_decoder
    assert updates is not None
    length = updates.config.continuation
    ids, mask = padded(prefixes.rows, side="right" if seq2seq else "left")
    longest = (1 if seq2seq else ids.shape[1]) + length
    with unconstrained_generation(model, stops=False, do_sample=False, max_length=longest):
        texts: Tensor = model.generate(input_ids=ids, attention_mask=mask, **prefixes.auxiliary)
    written = updates.written(texts[:, -length:])
    auxiliary = {"use_cache": False, **prefixes.auxiliary}
    if seq2seq:
        arguments = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": texts[:, :-1], **auxiliary}
        return Continuations(arguments, written, written.asked)
    # padding stands at the end now, where it moves no position of a text
    rows = [torch.cat([row, text[-length:-1]]) for row, text in zip(prefixes.rows, texts, strict=True)]
    ids, mask = padded(rows, side="right")
    first = torch.tensor([[len(row) - 1] for row in prefixes.rows], device=texts.device)
    at = first + torch.arange(length, device=texts.device)
    positions = torch.zeros_like(ids, dtype=torch.bool).scatter(1, at, written.asked)
    return Continuations({"input_ids": ids, "attention_mask": mask, **auxiliary}, written, positions)


def expect_room(config: Any, sequence: SequenceConfig | None) -> None:
    """Raises ValueError where prefix and continuation of an update are more than the model has positions for."""
    if sequence is None:
        return
    before, said = sequence.prefix, f"seq.prefix ({sequence.prefix})"
    if config.is_encoder_decoder:
        before, said = 1, "start token"
    needed = before + sequence.continuation
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and needed > limit:
        raise ValueError(
            f"objective: {said} and seq.continuation ({sequence.continuation}) are {needed} positions, and the model "
            f"has positions for {limit}; lower them, such as +seq:{max(1, limit // 3)}x{max(1, limit // 3 * 2 - 1)}"
        )
