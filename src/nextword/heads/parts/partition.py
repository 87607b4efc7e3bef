"""Partitions: words of the context, words of the source and the best candidates are scored by queries of their own."""

from __future__ import annotations

from itertools import permutations, product
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import BeforeValidator, model_validator
from torch import Tensor, nn

from nextword.config import Settings
from nextword.context import Context
from nextword.distribution import Add, Change, Edit, OnWords, Replace, Rerank
from nextword.functional.entries import Entries
from nextword.functional.words import Words
from nextword.heads.head import Keeper
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.input_states import FAINT, Projection
from nextword.heads.parts.local_embeddings import LocalEmbeddings, past_places, source_places
from nextword.heads.parts.modifiers import Modifier, Part, modifiers

Mode = Literal["assign", "add"]
_CHANGES: dict[Mode, Change] = {"assign": Replace(), "add": Add()}


def _ascending(sizes: Any) -> Any:
    whole = isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes)
    return tuple(sorted(sizes)) if whole else sizes


class PartitionConfig(Settings):
    """Which partitions a head has. ``assign`` gives their words new scores, ``add`` adds to those they have."""

    context: bool = False
    """C: words that occurred before in the decoder's sequence."""
    encoder: bool = False
    """E: words of the source."""
    pointer: bool = False
    """P: local embeddings; their mean over a word's places joins the score of C and E, or alone that of the word."""
    rerank: Annotated[tuple[int, ...], BeforeValidator(_ascending)] = ()
    """R: candidates of each reranking step, in any order; the largest step goes first."""
    mode: Mode | None = None
    """How C, E and P change a score; None: assign, and add for P alone, as published."""
    rerank_mode: Mode = "assign"
    """How R changes a score."""
    candidates: Literal["previous", "initial"] = "previous"
    """Whether a reranking step takes its candidates from the scores that the step before left, or from the first."""
    include_current: bool = False
    """Whether the current token is a word of its own context (the paper's figure) or only earlier ones (published)."""

    @model_validator(mode="after")
    def _something(self) -> PartitionConfig:
        if not (self.context or self.encoder or self.pointer or self.rerank):
            raise ValueError("at least one of context, encoder, pointer and rerank is needed")
        if any(size < 1 for size in self.rerank) or len(set(self.rerank)) < len(self.rerank):
            raise ValueError(f"rerank: different positive numbers of candidates are needed, {self.rerank} given")
        return self

    @property
    def word_mode(self) -> Mode:
        """How C, E and P change a score."""
        return self.mode or ("assign" if self.context or self.encoder else "add")


def _letters() -> tuple[str, ...]:
    """Every choice of letters in any order, the usual one first; ``d`` is another name of ``c``."""
    chosen = ["".join(choice) for choice in product(("", "c", "d"), ("", "e"), ("", "p"), ("", "r"))]
    spelled = ["".join(letters) for choice in chosen if choice for letters in permutations(choice)]
    return tuple(dict.fromkeys([*filter(None, chosen), *spelled]))


@modifiers.register("partition")
class PartitionModifier(Modifier):
    """``+c``, ``+e``, ``+p``, ``+r:K`` and their combinations such as ``+cepr:20`` or ``+cpr:20,100``."""

    field: ClassVar[str] = "partition"
    names: ClassVar[tuple[str, ...]] = _letters()
    usage: ClassVar[str] = "+ any of the letters c, e, p, r, such as +cpr:20,100"
    parts: ClassVar[tuple[Part, ...]] = (
        Part("+c", "Context: words that occurred before are scored by a query of their own.", "softmax+c", "c"),
        Part("+e", "Encoder: words of the source are scored by a query of their own.", "softmax+e", "e"),
        Part("+p", "Pointer: places of the text or source have embeddings, and score their words.", "softmax+p", "p"),
        Part("+r:K", "Reranker: the K best tokens are scored again by a query of their own.", "softmax+r:20,100", "r"),
        Part("+cpr:K, ...", "Any of these letters together.", "softmax+cpr:20,100+mi", "cpr"),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> dict[str, Any]:
        """``cpr`` and ``["20", "100"]`` as settings."""
        if "r" not in name and arguments:
            raise ValueError(f"'+{name}' takes no arguments, {','.join(arguments)!r} given; only r has sizes")
        if "r" in name and not (arguments and all(size.isdecimal() and int(size) for size in arguments)):
            raise ValueError(f"'+{name}' is followed by numbers of candidates such as {name}:20,100")
        parts = {"context": "cd", "encoder": "e", "pointer": "p"}
        found: dict[str, Any] = {part: True for part, letters in parts.items() if set(name) & set(letters)}
        return found | ({"rerank": tuple(int(size) for size in arguments)} if arguments else {})

    @staticmethod
    def write(value: PartitionConfig | None) -> tuple[str, list[str]] | None:
        """Settings as ``("cpr", ["20", "100"])``."""
        if value is None:
            return None
        parts = {"c": value.context, "e": value.encoder, "p": value.pointer, "r": bool(value.rerank)}
        return "".join(letter for letter, there in parts.items() if there), [str(size) for size in value.rerank]


class Partition(Keeper):
    """The edits that the partitions of a head make on its dense scores; none where it has no partition.

    Formula, in assign mode; the first line that holds gives the score::

        z_v = C q_t . w_v + mean_{s < t: x_s = v} PD q_t . LD q_s      if v occurred before t
            = E q_t . w_v + mean_{s: y_s = v}     PE q_t . LE e_s      if v is a word of the source
            = R_j q_t . w_v                                            for the last step j whose candidates hold v
            = S q_t . w_v                                              otherwise

    The means are there with P only. In add mode each is added to what the lines below it give. P without C and E adds
    ``mean PD q_t . LD q_s`` to the words that occurred before.

    Source: Softmax-CPR (Chang et al. 2023), context, encoder, pointer and reranker partitions.

    Args:
        config: Which partitions; None: none.
        width: Width of ``q_t``.
        dimensions: Sizes of the model.
        bias: Whether the projections have biases.

    Raises:
        ValueError: A partition over the source without an encoder, or more candidates than tokens.
    """

    def __init__(self, config: PartitionConfig | None, width: int, dimensions: Dimensions, bias: bool) -> None:
        super().__init__()
        self.config = config
        if config is None:
            return
        if config.encoder and dimensions.source is None:
            raise ValueError(
                "partition e: it holds the words of the source, and a decoder-only model has none; use c, or attach a "
                "conditioner, whose auxiliary text is one"
            )
        if config.rerank and config.rerank[-1] > dimensions.vocab_size:
            given = config.rerank[-1]
            raise ValueError(f"partition r: {given} candidates asked of a vocabulary of {dimensions.vocab_size} tokens")
        self._rerank_change, self._change = _CHANGES[config.rerank_mode], _CHANGES[config.word_mode]

        def projection(mode: Mode) -> Projection:
            return Projection(width, dimensions.hidden, bias=bias, scale=1.0 if mode == "assign" else FAINT)

        self.rerankers = nn.ModuleList(projection(config.rerank_mode) for _ in config.rerank)
        self.context = projection(config.word_mode) if config.context else None
        self.encoder = projection(config.word_mode) if config.encoder else None
        of_decoder = config.pointer and (config.context or not config.encoder)
        self.local = (
            LocalEmbeddings(width, dimensions, source=False, bias=bias, include_current=config.include_current)
            if of_decoder
            else None
        )
        self.source_local = (
            LocalEmbeddings(width, dimensions, source=True, bias=bias) if config.pointer and config.encoder else None
        )
        self.remembers = config.context or of_decoder or self.source_local is not None
        self.reads_source = config.encoder

    def streams(self, inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        """The local embeddings of new places."""
        return {} if self.config is None or self.local is None else self.local.streams(inputs)

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        """The local embeddings of the source."""
        return {} if self.config is None or self.source_local is None else self.source_local.source_streams(states)

    def forward(self, context: Context) -> list[Edit]:
        """The edits, in the order in which they are made."""
        config = self.config
        if config is None:
            return []
        edits: list[Edit] = []
        if config.rerank:
            queries = torch.stack([reranker(context.inputs) for reranker in self.rerankers], 1)
            from_initial = config.candidates == "initial"
            edits.append(Rerank(queries, config.rerank[::-1], self._rerank_change, from_initial))
        if config.encoder:
            assert context.source is not None
            visible = source_places(context)
            words = Words.of(context.source.ids, context.source.valid & (context.source.ids < context.vocabulary.size))
            values = self._values(context, words, self.encoder, self.source_local, visible)
            present = words.occurring(context.row)
            edits.append(OnWords("encoder", Entries(words.ids, context.row, values, present), self._change))
        if config.context or self.local is not None:
            assert context.memory is not None
            memory, visible = context.memory, past_places(context, config.include_current)
            words = Words.of(memory.ids, memory.valid & (memory.ids < context.vocabulary.size))
            values = self._values(context, words, self.context, self.local, visible)
            present = words.seen(context.row, context.position + config.include_current)
            name = "context" if config.context else "pointer"
            edits.append(OnWords(name, Entries(words.ids, context.row, values, present), self._change))
        return edits

    def _values(
        self,
        context: Context,
        words: Words,
        projection: Projection | None,
        local: LocalEmbeddings | None,
        visible: Bool[Tensor, "N S"],
    ) -> Float[Tensor, "N U"]:
        """What the partition says of each word: its score, the mean over its places, or both."""
        said = []
        if projection is not None:
            said.append(context.word_scores(projection(context.inputs), words.ids, self._change))
        if local is not None:
            said.append(words.mean(local.entries(context).scores, visible, context.row))
        return said[0] if len(said) == 1 else said[0] + said[1]
