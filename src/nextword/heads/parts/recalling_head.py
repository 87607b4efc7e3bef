"""A head that asks a stored corpus too, whatever the head below it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from nextword.distribution import NextToken
from nextword.functional.logspace import at_least_float32
from nextword.heads.context import Context
from nextword.heads.head import Head, StoredTexts
from nextword.heads.parts.head_calibration import Calibration
from nextword.heads.parts.level_calibration import LevelCalibration
from nextword.retrieval.ngram.levels import Found
from nextword.retrieval.ngram.recall import SOURCE, TextMemory, recalled
from nextword.retrieval.ngram.text_index import LastTokens


class RecallingHead(Head):
    """The distribution of a head, mixed with what came after the same last tokens in a corpus.

    Formula: ``P(w) = s_0 P_head(w) + sum_j s_j c_j(w) / c_j``, where ``c_j(w)`` counts how often ``w`` comes after the
    match of level ``j`` in the corpus, and the shares ``s`` are those of the length of the longest match.

    Expresses: what stands in a corpus, word for word; no states and no gradient of the corpus are needed. Costs: a
    bisection of the corpus for each position, on the CPU. It adds no parameter, and all else is as the head below.

    Args:
        below: The head.
        memory: The corpus and its weights.

    Raises:
        ValueError: The model has fewer tokens than may be stored, or is an encoder-decoder model.
    """

    def __init__(self, below: Head, memory: TextMemory) -> None:
        if below.dimensions.is_encoder_decoder:
            raise ValueError(
                "text memory: must be asked by a decoder-only model (an encoder-decoder model given); take another"
            )
        nn.Module.__init__(self)  # what a head makes of its settings the one below has made
        memory.index.manifest.expect_vocabulary(below.dimensions.vocab_size, memory.index.folder)
        self.below = below
        self.memory = memory
        self.modes, self.adjustable = below.modes, below.adjustable  # type: ignore[misc]
        self.generate_takes = below.generate_takes  # type: ignore[misc]
        self.dimensions, self.inputs = below.dimensions, below.inputs

    @property
    def config(self) -> Any:
        """Those of the head below."""
        return self.below.config

    @config.setter
    def config(self, config: Any) -> None:
        self.below.config = config

    @property
    def remembers(self) -> bool:
        """The tokens so far are what is looked up."""
        return True

    @property
    def reads_source(self) -> bool:
        """Where the head below does."""
        return self.below.reads_source

    @property
    def reads_words(self) -> bool:
        """It looks up words."""
        return True

    @property
    def looks_back(self) -> int | None:
        """As far as the head below does."""
        return self.below.looks_back

    def streams(self, states: Float[Tensor, "B T D"], inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """Those of the head below."""
        return self.below.streams(states, inputs)

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """Those of the head below."""
        return self.below.source_streams(states)

    def forward(self, context: Context, mode: str | None = None) -> NextToken:
        """The head's distribution, mixed with that of the corpus at every position."""
        dtype = at_least_float32(context.states[:0]).dtype
        return recalled(self.below(context, mode=mode), self.memory, self._found(context), dtype)

    def _found(self, context: Context) -> Found:
        assert context.memory is not None
        past = (context.memory.ids, context.memory.valid, context.row, context.position)
        return self.memory.find(LastTokens(*(tensor.cpu().numpy() for tensor in past)))

    def calibration(self) -> Calibration:
        """The weights of the corpus."""
        return LevelCalibration(lambda context: (self.below(context), self._found(context)), self.memory)

    def begin(self, context_of: Callable[[Int[Tensor, "M"]], Context]) -> None:
        """As the head below."""
        self.below.begin(context_of)

    def expect_tokenizer(self, fingerprint_of: Callable[[], str | None]) -> None:
        """As the head below."""
        self.below.expect_tokenizer(fingerprint_of)

    def resized(self, vocab_size: int) -> None:
        """As the head below."""
        self.below.resized(vocab_size)

    def stored_texts(self) -> Mapping[str, StoredTexts]:
        """The corpus, and those of the head below."""
        return {**self.below.stored_texts(), SOURCE: self.memory.index}

    def facts(self) -> dict[str, Any]:
        """Those of the head below, and which corpus it is."""
        manifest = self.memory.index.manifest
        return self.below.facts() | {"text_memory": ", ".join(manifest.data), "text_memory_tokens": manifest.tokens}


@contextlib.contextmanager
def recalling(model: Any, memory: TextMemory) -> Iterator[Any]:
    """A model that asks a corpus too inside the ``with`` block: to score, to write, to be checked.

    The model is the same object, and has its own head again afterwards. What is saved inside the block would not load.

    Args:
        model: Of ours, from ``nextword.attach`` or ``nextword.load``.
        memory: The corpus and its weights.

    Raises:
        ValueError: The model has fewer tokens than may be stored, or a backbone that keeps no tokens between steps.

    Examples:
        >>> with recalling(model, TextMemory.open("memory", "weights.json", tokenizer)):  # doctest: +SKIP
        ...     nw.score(model, tokenizer, ["The king sat."])
    """
    below = model.next_word_head
    model.next_word_head = RecallingHead(below, memory)
    try:
        model._refuse_history_without_cache()
        yield model
    finally:
        model.next_word_head = below
