"""The inputs of a head for all positions of a pass. From them the ``Context`` of chosen positions is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nextword.distribution import Vocabulary
from nextword.heads.context import Context, Layout, Memory, Source
from nextword.heads.head import Head
from nextword.model.forward.backbone import AuxiliaryStates, BackboneOutput
from nextword.model.forward.forward_batch import ForwardBatch
from nextword.model.forward.packing import PACKED, TextRows, outside_graph
from nextword.model.head_cache.head_cache import DynamicHeadCache
from nextword.model.head_cache.slots import PagedHeadCache
from nextword.runtime.devices import is_offloaded, vocabulary_mesh, weight_of

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class HeadInputs:
    """The inputs of a head in one pass. From them the ``Context`` of chosen positions is made.

    Args:
        states: Inputs of the output layer (B, T, D).
        inputs: Inputs of the head's projections (B, T, Q).
        past: Number of positions before the first new token.
        memory: The sequences so far; None if the head does not keep them.
        source: Tokens and states of the encoder's text or of the auxiliary text; None if the head does not read them.
        output_layer: The backbone's output layer with bias and scaling, and the conditioner's offset per sequence.
        input_embedding: Weight of the backbone's input embedding; None if it is quantised or offloaded.
        output_embedding: Weight of the output layer; None if it is quantised or offloaded.
        new_positions: If the rows of the pass were windows of one text: a mask (B, T) of the positions that were moved
            to the single row of ``states``. None: rows are unchanged.
        texts: If rows of the pass held several texts: for each position, its row and index in ``states``, which has
            one text per row. None: rows are unchanged.
    """

    states: Tensor
    inputs: Tensor
    past: int | Tensor
    memory: Memory | None
    source: Source | None
    output_layer: Vocabulary
    input_embedding: Tensor | None
    output_embedding: Tensor | None
    new_positions: Bool[Tensor, "B T"] | None = None
    texts: TextRows | None = None

    @property
    def rows(self) -> int:
        """Number of rows in the results of ``last``."""
        return len(self.states if self.texts is None else self.texts.row)

    def at(self, positions: Int[Tensor, "N"]) -> Context:
        """The context at ``positions``, which are ascending indices into the B * T positions of the pass.

        Raises ValueError if one of them is False in ``new_positions``.
        """
        if self.new_positions is not None and not bool(self.new_positions.flatten()[positions].all()):
            raise ValueError("positions: must be among the new_positions (others given); ask for those alone")
        kept = self.among_all(positions)
        if self.texts is None:
            length = self.states.shape[1]
            row, column = kept // length, kept % length
        else:
            row, column = self.texts.row.flatten()[kept], self.texts.position.flatten()[kept]
        return self._context(Layout(row, len(self.states)), column, lambda of_all: of_all[row, column])

    def among_all(self, positions: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """For each of ``positions``, its index in the result of ``last(0)``."""
        if self.new_positions is None:
            return positions
        return (self.new_positions.flatten().cumsum(0) - 1)[positions]

    def last(self, keep: int | Tensor) -> Context:
        """The context at the last ``keep`` positions of every row (0: all), or at the indices in a tensor ``keep``."""
        if self.texts is not None:
            return self._last_of_texts(self.texts, keep)
        batch, length, _ = self.states.shape
        positions = torch.arange(length, device=self.states.device)
        if isinstance(keep, Tensor):
            kept = positions[keep].expand(batch, -1)
            layout = Layout.full(batch, kept.shape[1], kept.device)
            return self._context(layout, kept.flatten(), lambda of_all: of_all[layout.row, kept.flatten()])
        # faster than indexing: the same last positions of every sequence are one slice
        last = slice(-keep, None)
        layout = Layout.full(batch, len(positions[last]), positions.device)
        return self._context(layout, positions[last].repeat(batch), lambda of_all: of_all[:, last].flatten(0, 1))

    def _last_of_texts(self, texts: TextRows, keep: int | Tensor) -> Context:
        kept = keep if isinstance(keep, Tensor) else slice(-keep, None)
        row, positions = (of_all[:, kept].flatten() for of_all in (texts.row, texts.position))
        if bool((row.diff() < 0).any()):
            raise ValueError("logits_to_keep: must ascend if a row has several texts (other numbers given); sort it")
        return self._context(Layout(row, texts.count), positions, lambda of_all: of_all[row, positions])

    def _context(self, layout: Layout, positions: Tensor, of: Callable[[Tensor], Tensor]) -> Context:
        # ``of`` selects the rows of these positions from a tensor (B, T, ...)
        states = of(self.states)
        return Context(
            states=states,
            inputs=states if self.inputs is self.states else of(self.inputs),
            position=positions + self.past,
            layout=layout,
            output_layer=self.output_layer,
            memory=self.memory,
            source=self.source,
            input_embedding=self.input_embedding,
            output_embedding=self.output_embedding,
        )


def head_inputs(
    model: NextWordModel, batch: ForwardBatch, auxiliary: AuxiliaryStates | None, run: BackboneOutput
) -> HeadInputs | PackedInputs:
    """Makes the inputs of the head, and adds the values of the new tokens to the head's cache."""
    if batch.past.paged is not None:
        return _packed(model, batch, run, batch.past.paged)
    return (_of_rows if batch.texts is None else _of_texts)(model, batch, auxiliary, run)


def _of_rows(
    model: NextWordModel, batch: ForwardBatch, auxiliary: AuxiliaryStates | None, run: BackboneOutput
) -> HeadInputs:
    """Makes the inputs for rows that are texts, windows of one text, or several packed texts."""
    head, head_cache, new_positions, texts = (
        model.next_word_head,
        batch.past.head_cache,
        batch.new_positions,
        batch.texts,
    )
    ids, valid, labels = batch.ids, batch.valid, batch.labels
    if new_positions is not None:  # all new positions in one row, in order
        run = _laid_out(run, lambda of_rows: of_rows[new_positions][None])
        ids, valid, labels = ids[new_positions][None], valid[new_positions][None], None
    if texts is not None:  # a row for each text
        run, ids, valid = _laid_out(run, texts.laid_out), texts.laid_out(ids), texts.laid_out(valid)
        labels = None if labels is None else texts.laid_out(labels)
    if head_cache is None and model.carries_head_cache:
        head_cache = DynamicHeadCache()  # only for this pass; its values are not kept while the loss is computed
    inputs = head.inputs(run.states, run.layers, valid, head_cache)
    past: int | Tensor = 0
    memory: Memory | None = None
    if head_cache is not None:
        streams = head.streams(run.states, inputs)
        past = head_cache.remember(_words(model, ids), valid, streams, head.looks_back)
        memory = head_cache.recall()
        if labels is not None and labels.shape == memory.ids.shape:  # no earlier positions, so every label is known
            memory = replace(memory, labels=labels)
    output_layer: Vocabulary = run.output_layer
    if auxiliary is not None:
        output_layer = model.conditioner.output_layer(output_layer, auxiliary.kept)
    return HeadInputs(
        states=run.states,
        inputs=inputs,
        past=past,
        memory=memory,
        source=_source(model, batch, run) if auxiliary is None else auxiliary.source,
        output_layer=output_layer,
        input_embedding=_vectors(model.get_input_embeddings()),
        output_embedding=_vectors(model.get_output_embeddings()),
        new_positions=new_positions,
        texts=texts,
    )


# If a row holds several texts, every new length of the longest text would compile a new graph.
_of_texts = outside_graph(PACKED)(_of_rows)


def _laid_out(run: BackboneOutput, change: Callable[[Tensor], Tensor]) -> BackboneOutput:
    return replace(run, states=change(run.states), layers=tuple(change(layer) for layer in run.layers))


def _packed(model: NextWordModel, batch: ForwardBatch, run: BackboneOutput, memory: PagedHeadCache) -> PackedInputs:
    layers = tuple(layer[0] for layer in run.layers)
    tokens = PackedTokens(_words(model, batch.ids)[0], run.states[0], layers)
    embeddings = _vectors(model.get_input_embeddings()), _vectors(model.get_output_embeddings())
    return packed_inputs(model.next_word_head, OutputParts(run.output_layer, *embeddings), tokens, memory)


def _words(model: NextWordModel, ids: Tensor) -> Tensor:
    # negative for tokens that stand for images: the position is known, but it has no token that a head could copy
    for token in model._wordless:
        ids = ids.masked_fill(ids == token, -1)
    return ids


def _vectors(embedding: nn.Module) -> Tensor | None:
    # None if the vectors are not the rows of a weight
    weight = weight_of(embedding)
    readable = weight.is_floating_point() and not is_offloaded(embedding) and vocabulary_mesh(embedding) is None
    return weight if readable else None


def _source(model: NextWordModel, batch: ForwardBatch, run: BackboneOutput) -> Source | None:
    source, states = batch.source, run.source_states
    if source is None or source.words is None or states is None:
        return None
    assert source.valid is not None
    head, head_cache = model.next_word_head, batch.past.head_cache
    made = head.source_streams
    streams = made(states) if head_cache is None else head_cache.of_source(lambda: made(states))
    return Source(source.words, source.valid, states, streams)


# -- The inputs of the head if a serving engine packs the tokens of many requests into one row.
#
# The head is called as usual. In its cache each new token is a row with one position. One call can ask for the
# distributions of tokens of several requests. Each of these rows reads the text of its own request.


@dataclass(frozen=True)
class PackedTokens:
    """The N new tokens of one pass of a serving engine.

    Args:
        ids: Token ids; negative where a token stands for a part of an image, which a head cannot copy.
        states: Input of the output layer at each token.
        layers: Decoder hidden states (N, D) at the tokens: of as many layers as the head reads, last layer first.
    """

    ids: Int[Tensor, "N"]
    states: Float[Tensor, "N D"]
    layers: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class OutputParts:
    """The parts of the model that a head uses: the output layer, and both embedding weights (None: not readable)."""

    output_layer: Vocabulary
    input_embedding: Tensor | None = None
    output_embedding: Tensor | None = None


@dataclass(frozen=True)
class PackedInputs:
    """The inputs of a head in one pass of a serving engine, for every new token.

    Args:
        states: Inputs of the output layer (1, N, D).
        inputs: Inputs of the head's projections (1, N, Q).
        memory: The head cache of this pass, which includes the new tokens.
        remembers: Whether the head reads earlier positions.
        parts: The parts of the model that the head uses.
    """

    states: Float[Tensor, "1 N D"]
    inputs: Float[Tensor, "1 N Q"]
    memory: PagedHeadCache
    remembers: bool
    parts: OutputParts

    rows = 1
    """Number of rows in the results of ``last``."""

    def last(self, keep: int | Tensor) -> Context:
        """The context at the last ``keep`` tokens (0: all), or at the indices in a tensor ``keep``.

        Indices may be in any order and may repeat. The text of a request is read once per index. So call this method
        for one token per request. For several tokens per request call ``at``, which reads each text once.
        """
        if not isinstance(keep, Tensor):
            return self.at(torch.arange(self.states.shape[1], device=self.states.device)[-keep:])
        rows = keep.long()
        request = self.memory.slots.request[rows]
        return self._context(rows, Layout.full(len(rows), 1, rows.device), request)

    def at(self, rows: Int[Tensor, "M"]) -> Context:
        """The context at ``rows``, which are ascending indices of tokens."""
        requests, row = self.memory.slots.request[rows].unique_consecutive(return_inverse=True)
        return self._context(rows, Layout(row, len(requests)), requests)

    def _context(self, rows: Tensor, layout: Layout, requests: Tensor) -> Context:
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


def packed_inputs(head: Head, parts: OutputParts, tokens: PackedTokens, memory: PagedHeadCache) -> PackedInputs:
    """Makes the inputs of a decoder-only model's ``head`` in one pass, and adds the new ``tokens`` to ``memory``."""
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
