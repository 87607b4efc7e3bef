"""What the head is given where a serving engine packs the tokens of many requests side by side in one row.

The head is called as always. To its memory each new token is a row of one place; a distribution is asked from rows of
any requests at once, and each row reads the text of its own request.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.distribution import Vocabulary
from nextword.heads.context import Context, Layout
from nextword.heads.head import Head
from nextword.model.head_cache.slots import PagedMemory


@dataclass(frozen=True)
class PackedTokens:
    """The new tokens of one pass.

    Args:
        ids: The tokens, negative where they hold no word.
        states: What the output layer reads at each.
        layers: The last decoder hidden states there (N, D) each, the last one first, as many as the head reads.
    """

    ids: Int[Tensor, "N"]
    states: Float[Tensor, "N D"]
    layers: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class OutputParts:
    """What a head asks of the model around it.

    Args:
        output_layer: The backbone's output layer.
        input_embedding: Weight of the backbone's input embedding, where it can be read.
        output_embedding: Weight of its output layer, likewise.
    """

    output_layer: Vocabulary
    input_embedding: Tensor | None = None
    output_embedding: Tensor | None = None


@dataclass(frozen=True)
class PackedInputs:
    """What the head is given of one pass, at every new token.

    Args:
        states: What the output layer reads (1, N, D).
        inputs: What the head's projections read (1, N, Q).
        memory: The slots of this pass, with what the head keeps of the new tokens.
        remembers: Whether the head looks at earlier places.
        parts: What the head asks of the model around it.
    """

    states: Float[Tensor, "1 N D"]
    inputs: Float[Tensor, "1 N Q"]
    memory: PagedMemory
    remembers: bool
    parts: OutputParts

    rows = 1
    """How many rows the answers have that ``last`` leads to."""

    def last(self, keep: int | Tensor) -> Context:
        """The context at the tokens that an engine asks for: which ones, the last ``keep``, or all where it is 0.

        Given as numbers, in any order and several times too, each reads the text of its request apart. That suits one
        token for each request; for more of them ``at`` reads a text once.
        """
        if not isinstance(keep, Tensor):
            asked = torch.zeros(self.states.shape[:2], dtype=torch.bool, device=self.states.device)
            asked[:, -keep:] = True
            return self.at(asked)
        rows = keep.long()
        request = self.memory.slots.request[rows]
        return self._context(rows, Layout.full(len(rows), 1, rows.device), request)

    def at(self, positions: Bool[Tensor, "1 N"]) -> Context:
        """The context at the given tokens, in the order of the row."""
        rows = positions[0].nonzero()[:, 0]
        requests, row = self.memory.slots.request[rows].unique_consecutive(return_inverse=True)
        return self._context(rows, Layout(row, len(requests)), requests)

    def _context(self, rows: Tensor, layout: Layout, requests: Tensor) -> Context:
        """The context at some tokens of these requests."""
        states = self.states[0, rows]
        return Context(
            states=states,
            inputs=states if self.inputs is self.states else self.inputs[0, rows],
            position=self.memory.slots.position[rows],
            layout=layout,
            output_layer=self.parts.output_layer,
            memory=self.memory.recall_of(requests) if self.remembers else None,
            input_embedding=self.parts.input_embedding,
            output_embedding=self.parts.output_embedding,
        )


def packed_inputs(head: Head, parts: OutputParts, tokens: PackedTokens, memory: PagedMemory) -> PackedInputs:
    """What a head is given of one pass, with its new tokens added to what it remembers.

    Args:
        head: Any head of decoder-only models.
        parts: What it asks of the model around it.
        tokens: The new tokens.
        memory: The slots of this pass.
    """
    states = tokens.states[:, None]
    valid = torch.ones_like(tokens.ids[:, None], dtype=torch.bool)
    layers = tuple(layer[:, None] for layer in tokens.layers)
    inputs = head.inputs(states, layers, valid, memory)
    if head.remembers:
        memory.remember(tokens.ids[:, None], valid, head.streams(states, inputs))
    packed = states.transpose(0, 1)
    return PackedInputs(
        states=packed,
        inputs=packed if inputs is states else inputs.transpose(0, 1),
        memory=memory,
        remembers=head.remembers,
        parts=parts,
    )
