"""Models of transformers with one mistake each in what they compute."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.helpers.audit_zoo.naming import (
    CACHE,
    FUTURE,
    LEFT_OVER,
    NEIGHBOUR,
    NOT_REPEATABLE,
    PACKED,
    PADDING,
    POSITIONS,
    PRECISION,
    REORDERED,
    SAMPLING,
    SCORED_BEFORE,
    SOURCE_PADDING,
    STEPS,
    TOTAL,
    UNSCORED,
)
from tests.helpers.audit_zoo.planting import fault
from tests.helpers.audit_zoo.tiny_models import changed, gpt2, llama, t5


class Wrong:
    """A model whose scores are changed after the fact."""

    def forward(self, *args: Any, **inputs: Any) -> Any:
        found = super().forward(*args, **inputs)  # type: ignore[misc]
        found.logits = self.rescored(found.logits)
        return found


class SeesAhead:
    """Attention sees so many positions ahead."""

    ahead = 1

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
        first = read_before(inputs)
        if attention_mask is None:
            attention_mask = torch.ones(len(input_ids), first + input_ids.shape[1], dtype=torch.long)
        place = torch.arange(attention_mask.shape[1])
        here = place[first:, None]
        visible = (place <= here + self.ahead) & attention_mask.bool()[:, None, None]
        return super().forward(input_ids, attention_mask=visible | (place == here), **inputs)  # type: ignore[misc]


def read_before(inputs: dict[str, Any]) -> int:
    """How many positions a KV cache has."""
    past = inputs.get("past_key_values")
    return 0 if past is None else int(past.get_seq_length())


@fault(FUTURE, twin=llama)
def attends_to_everything() -> Any:
    """Attention has no causal mask."""

    class Bidirectional(SeesAhead):
        ahead = 10**6

    return changed(llama(), Bidirectional)


@fault(FUTURE, twin=llama)
def attends_one_ahead() -> Any:
    """The causal mask is off by one: a position attends to the next position, which contains its target."""
    return changed(llama(), SeesAhead)


@fault(FUTURE, twin=gpt2)
def centred_over_time() -> Any:
    """States are normalised over all positions of a text."""

    class Centred(Wrong):
        def rescored(self, logits: Tensor) -> Tensor:
            return logits + 0.1 * logits.mean(1, keepdim=True)

    return changed(gpt2(), Centred)


@fault(FUTURE, PADDING, twin=gpt2)
def positions_from_the_end() -> Any:
    """Positions are counted from the end of the text, so they reveal its length."""

    class Backwards:
        def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> Any:
            places = torch.arange(input_ids.shape[1]).flip(0).expand_as(input_ids)
            return super().forward(input_ids, position_ids=places, **inputs)  # type: ignore[misc]

    return changed(gpt2(), Backwards)


@fault(NEIGHBOUR, twin=gpt2)
def statistics_of_the_batch() -> Any:
    """Scores are divided by their standard deviation over the batch, as in a batch norm in training mode."""

    class BatchScaled(Wrong):
        def rescored(self, logits: Tensor) -> Tensor:
            return logits * (1 + 0.01 * logits.std(dim=(0, 2), keepdim=True))

    return changed(gpt2(), BatchScaled)


@fault(NEIGHBOUR, twin=gpt2)
def batch_is_flattened() -> Any:
    """The memory of earlier tokens is taken from the flattened batch, so it includes other texts."""

    class Flattened:
        def forward(self, input_ids: Tensor, **inputs: Any) -> Any:
            found = super().forward(input_ids, **inputs)  # type: ignore[misc]
            seen = nn.functional.one_hot(input_ids.flatten(), found.logits.shape[-1]).cumsum(0).clamp_max(1)
            found.logits = found.logits + 0.5 * seen.view_as(found.logits)
            return found

    return changed(gpt2(), Flattened)


@fault(NEIGHBOUR, twin=gpt2)
def experts_with_a_capacity() -> Any:
    """Each expert processes a limited number of tokens per batch; further tokens are dropped."""

    class Crowded:
        def forward(self, input_ids: Tensor, **inputs: Any) -> Any:
            found = super().forward(input_ids, **inputs)  # type: ignore[misc]
            expert = nn.functional.one_hot(input_ids.flatten() % 4, 4)
            served = ((expert.cumsum(0) - 1) * expert).sum(-1) < 2
            found.logits = torch.where(served.view(*input_ids.shape, 1), found.logits, 0.5 * found.logits)
            return found

    return changed(gpt2(), Crowded)


@fault(PADDING, twin=llama)
def attends_to_padding() -> Any:
    """The attention mask is not passed, so padding is attended to."""

    class Unmasked:
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
            return super().forward(input_ids, **inputs)  # type: ignore[misc]

    return changed(llama(), Unmasked)


@fault(PADDING, twin=gpt2)
def positions_count_padding() -> Any:
    """Given position ids are ignored and counted from the left end of the row, so left padding shifts them."""

    class FromTheLeft:
        def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> Any:
            first = read_before(inputs)
            places = torch.arange(first, first + input_ids.shape[1]).expand_as(input_ids)
            return super().forward(input_ids, position_ids=places, **inputs)  # type: ignore[misc]

    return changed(gpt2(), FromTheLeft)


@fault(SOURCE_PADDING, twin=t5)
def source_padding_is_read() -> Any:
    """The decoder attends to the padding of the source."""

    class ReadsPadding:
        def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
            return super().forward(input_ids, **inputs)  # type: ignore[misc]

    return changed(t5(), ReadsPadding)


@fault(NOT_REPEATABLE, twin=gpt2)
def dropout_left_on() -> Any:
    """Dropout is on in evaluation mode too."""

    class Dropped(Wrong):
        def rescored(self, logits: Tensor) -> Tensor:
            return nn.functional.dropout(logits, 0.1)

    return changed(gpt2(), Dropped)


@fault(CACHE, twin=llama)
def cache_off_by_one() -> Any:
    """With a KV cache, the position of the first new token is too large by one."""

    class Late:
        def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> Any:
            if first := read_before(inputs):
                given = torch.arange(first, first + input_ids.shape[1]).expand_as(input_ids)
                position_ids = (given if position_ids is None else position_ids) + 1
            return super().forward(input_ids, position_ids=position_ids, **inputs)  # type: ignore[misc]

    return changed(llama(), Late)


@fault(CACHE, FUTURE, twin=llama)
def chunks_are_not_causal() -> Any:
    """Several tokens that continue a KV cache attend to each other in both directions."""

    class OpenChunks(SeesAhead):
        ahead = 10**6

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
            read = super().forward if read_before(inputs) else super(SeesAhead, self).forward  # type: ignore[misc]
            return read(input_ids, attention_mask=attention_mask, **inputs)

    return changed(llama(), OpenChunks)


class Remembers:
    """Tokens that were read before get a higher score; the memory of a text lies beside its KV cache."""

    seen: Tensor | None = None

    def forward(self, input_ids: Tensor, **inputs: Any) -> Any:
        if not read_before(inputs):
            self.start()
        found = super().forward(input_ids, **inputs)  # type: ignore[misc]
        mask = inputs.get("attention_mask")
        read = torch.ones_like(input_ids) if mask is None else mask[:, -input_ids.shape[1] :]
        now = (nn.functional.one_hot(input_ids, found.logits.shape[-1]) * read[..., None]).cumsum(1)
        seen = now if self.seen is None else now + self.seen[: len(now)]
        self.seen = seen[:, -1:]
        found.logits = found.logits + seen.clamp_max(1)
        return found

    def start(self) -> None:
        """Before a new text."""
        self.seen = None


@fault(REORDERED, twin=gpt2)
def memory_is_not_reordered() -> Any:
    """Beam search reorders the KV cache but not the model's other memory."""
    return changed(gpt2(), Remembers)


@fault(LEFT_OVER, SCORED_BEFORE, NOT_REPEATABLE, twin=gpt2)
def memory_is_not_emptied() -> Any:
    """The memory of one text is still there in the next text."""

    class Keeps(Remembers):
        def start(self) -> None:
            self.seen = None if self.seen is None else self.seen.amax(0, keepdim=True)

    return changed(gpt2(), Keeps)


@fault(UNSCORED, twin=gpt2)
def a_token_is_forbidden() -> Any:
    """A token is suppressed at every position, as by generation settings, so its probability is 0."""

    class Suppressed(Wrong):
        def rescored(self, logits: Tensor) -> Tensor:
            return logits.index_fill(-1, torch.tensor([7]), -torch.inf)

    return changed(gpt2(), Suppressed)


@fault(PRECISION, twin=gpt2)
def scores_in_half_precision() -> Any:
    """Scores are rounded to bfloat16, whatever the model's precision."""

    class Halved(Wrong):
        def rescored(self, logits: Tensor) -> Tensor:
            return logits.bfloat16().to(logits.dtype)

    return changed(gpt2(), Halved)


@fault(STEPS, TOTAL, twin=gpt2)
def loss_counts_padding() -> Any:
    """Labels of padding are the padding token and count in the mean."""

    class CountsPadding:
        def forward(self, input_ids: Tensor, labels: Tensor | None = None, **inputs: Any) -> Any:
            return super().forward(input_ids, labels=None if labels is None else input_ids, **inputs)  # type: ignore[misc]

    return changed(gpt2(), CountsPadding)


@fault(STEPS, TOTAL, twin=gpt2)
def loss_is_smoothed() -> Any:
    """Labels are smoothed in evaluation as in training."""

    class Smoothed:
        def forward(self, input_ids: Tensor, labels: Tensor | None = None, **inputs: Any) -> Any:
            found = super().forward(input_ids, labels=labels, **inputs)  # type: ignore[misc]
            if labels is not None:
                scores, targets = found.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
                found.loss = nn.functional.cross_entropy(scores, targets, label_smoothing=0.1)
            return found

    return changed(gpt2(), Smoothed)


@fault(SAMPLING, twin=gpt2)
def repetition_is_penalised() -> Any:
    """The saved generation settings penalise repetition, so samples differ from the probabilities."""
    model = gpt2()
    model.generation_config.repetition_penalty = 1.5
    return model


def begins(position_ids: Tensor) -> Tensor:
    """How many texts have begun in a row up to each position, (B, T)."""
    return (position_ids == 0).long().cumsum(1)


class Parts:
    """Tells the texts of a packed row apart by a mask of its own; ``own`` says which text each token counts as."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None, **inputs: Any
    ) -> Any:
        if attention_mask is None and position_ids is not None:
            text = self.own(begins(position_ids))
            place = torch.arange(input_ids.shape[1])
            attention_mask = ((text[:, :, None] == text[:, None]) & (place[:, None] >= place))[:, None]
            position_ids = self.counted(position_ids)
        return super().forward(input_ids, attention_mask=attention_mask, position_ids=position_ids, **inputs)  # type: ignore[misc]

    def own(self, text: Tensor) -> Tensor:
        """The text itself."""
        return text

    def counted(self, position_ids: Tensor) -> Tensor:
        """The positions themselves."""
        return position_ids


@fault(PACKED, twin=llama)
def packed_texts_overlap_by_one() -> Any:
    """In packed rows, the first token of each text is masked as if it belonged to the previous text."""

    class Late(Parts):
        def own(self, text: Tensor) -> Tensor:
            return torch.cat([text[:, :1], text[:, :-1]], 1)

    return changed(llama(), Late)


@fault(PACKED, twin=gpt2)
def packed_places_go_on() -> Any:
    """Packed texts are masked from each other, but their positions continue instead of restarting at 0."""

    class GoesOn(Parts):
        def counted(self, position_ids: Tensor) -> Tensor:
            return torch.arange(position_ids.shape[1]).expand_as(position_ids)

    return changed(gpt2(), GoesOn)


@fault(POSITIONS, twin=gpt2)
def given_places_count_from_one() -> Any:
    """Given position ids are counted from 1, default position ids from 0."""

    class FromOne:
        def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> Any:
            given = None if position_ids is None else position_ids + 1
            return super().forward(input_ids, position_ids=given, **inputs)  # type: ignore[misc]

    return changed(gpt2(), FromOne)
