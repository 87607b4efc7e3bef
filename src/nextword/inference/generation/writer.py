"""Prompts in batches through ``generate``, without any constraint that a model's own settings ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from nextword.functional.padding import padded
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.minibatches import Progress, batches
from nextword.inference.scoring.target_likelihood import Inputs, TokenPair, fill_id, no_inputs
from nextword.model.unconstrained_generation import unconstrained_generation


@dataclass(frozen=True)
class Writer:
    """Writes token ids with a model.

    Attributes:
        model: An attached model.
        batch_size: Texts written at a time.
        inputs: Further inputs of the model for a batch.
        arguments: Further arguments of ``generate``.
    """

    model: Any
    batch_size: int
    inputs: Inputs = no_inputs
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def write(
        self,
        pairs: Sequence[TokenPair],
        decoding: Decoding,
        length: int,
        ends: bool = False,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        """What the model writes after each context, or from each source.

        Args:
            pairs: Their contexts are read.
            decoding: How it writes.
            length: Tokens to write.
            ends: Whether the end token ends a text, which then has at most ``length`` tokens, the end token left out.
                Otherwise every text has exactly so many.
            progress: Told the share that is done.

        Raises:
            ValueError: Texts are to be of one length and are not, because ``arguments`` ask for another.
        """
        texts: list[list[int]] = []
        for part in batches(pairs, self.batch_size, progress):
            texts += self._batch(part, decoding, length, ends)
        return texts

    def _batch(self, pairs: Sequence[TokenPair], decoding: Decoding, length: int, ends: bool) -> list[list[int]]:
        model, has_encoder = self.model, self.model.config.is_encoder_decoder
        contexts = [pair.context for pair in pairs]
        ids, mask = padded(contexts, fill_id(model), side="right" if has_encoder else "left")
        # A decoder of its own begins with one token. max_new_tokens would give one more where a model has a default.
        longest = {"max_length": length + 1} if has_encoder else {"max_new_tokens": length}
        arguments = {**self.inputs(pairs), **self.arguments}
        with unconstrained_generation(model, stops=ends, **longest, **decoding.arguments()):
            written = model.generate(ids.to(model.device), attention_mask=mask.to(model.device), **arguments)
        rows: list[list[int]] = written[:, 1 if has_encoder else ids.shape[1] :].tolist()
        if ends:
            end_ids = _end_ids(model)
            return [list(takewhile(lambda token: token not in end_ids, row)) for row in rows]
        if len(rows[0]) != length:
            raise ValueError(f"decoding '{decoding.title}' wrote {len(rows[0])} tokens instead of {length}")
        return rows


def _end_ids(model: Any) -> tuple[int, ...]:
    end = model.generation_config.eos_token_id
    return () if end is None else tuple(end) if isinstance(end, list | tuple) else (int(end),)
