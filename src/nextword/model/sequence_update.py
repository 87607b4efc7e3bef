"""Sequence updates (``+seq``): the model continues prefixes of the batch, and is trained on these continuations."""

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
    """The beginnings of texts that the model continues in a sequence update.

    Args:
        rows: Tokens of each prefix, without padding; for an encoder-decoder model each prefix is a source.
        auxiliary: Mapping from argument name of ``forward`` to tensor, for the auxiliary text of each prefix.
    """

    rows: list[Int[Tensor, "_"]]
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Continuations:
    """The model's continuations of R prefixes, as a training batch.

    Args:
        arguments: Arguments of the forward pass over prefixes and continuations.
        written: The tokens generated after each prefix, and a mask of repeated tokens, which the loss penalises.
        positions: Mask of the positions of the forward pass that predict the penalised tokens.
    """

    arguments: Mapping[str, Any]
    written: Written
    positions: Bool[Tensor, "R T"]


def prefixes_of(model: NextWordModel, batch: ForwardBatch) -> Prefixes | None:
    """The prefixes of ``batch`` if this update is a sequence update; None if it trains on the batch's tokens.

    Call this function once for every training batch, because each call decides about one update. If the batch of any
    process has no prefixes (embeddings instead of ids, only padding, or a KV cache), all processes train on the tokens.
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
    """Cuts the beginning of ``text`` into consecutive prefixes of ``config.prefix`` tokens.

    A shorter text is the only prefix. There are at most ``config.prefixes``; None: one for every
    ``prefix + continuation`` tokens, but at least one.

    >>> [len(prefix) for prefix in cut_prefixes(torch.arange(500), SequenceConfig())]
    [50, 50, 50]
    >>> [len(prefix) for prefix in cut_prefixes(torch.arange(30), SequenceConfig(prefixes=6))]
    [30]
    """
    wanted = config.prefixes or max(1, len(text) // (config.prefix + config.continuation))
    return list(text[: max(1, len(text) // config.prefix) * config.prefix].split(config.prefix)[:wanted])


def write_greedily(model: NextWordModel, prefixes: Prefixes) -> Continuations:
    """Continues ``prefixes`` greedily by ``seq.continuation`` tokens each; an end token does not end a continuation.

    Tokens are chosen without gradient and with a KV cache. A later pass with the returned ``arguments`` gives their
    probabilities. The gradient of this pass is the same as if each token were generated with a graph, because an argmax
    has no gradient. The caller sets evaluation mode for generation and this pass, because dropout would alter both.
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
    # padding is at the end now, where it does not change the position of any token
    rows = [torch.cat([row, text[-length:-1]]) for row, text in zip(prefixes.rows, texts, strict=True)]
    ids, mask = padded(rows, side="right")
    first = torch.tensor([[len(row) - 1] for row in prefixes.rows], device=texts.device)
    at = first + torch.arange(length, device=texts.device)
    positions = torch.zeros_like(ids, dtype=torch.bool).scatter(1, at, written.asked)
    return Continuations({"input_ids": ids, "attention_mask": mask, **auxiliary}, written, positions)


def expect_room(config: Any, sequence: SequenceConfig | None) -> None:
    """Raises ValueError if prefix (encoder-decoder: start token) and continuation exceed the model's positions."""
    if sequence is None:
        return
    before, said = sequence.prefix, f"seq.prefix ({sequence.prefix})"
    if config.is_encoder_decoder:
        before, said = 1, "start token"
    needed = before + sequence.continuation
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and needed > limit:
        raise ValueError(
            f"objective: {said} and seq.continuation ({sequence.continuation}) take {needed} positions, more than the "
            f"model's {limit}; lower them, such as +seq:{max(1, limit // 3)}x{max(1, limit // 3 * 2 - 1)}"
        )
