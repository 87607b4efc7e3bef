"""Partitions: context tokens, source tokens and top candidates are each scored by a separate query."""

from __future__ import annotations

from itertools import permutations, product
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator, model_validator
from torch import nn

from nextword.distribution import Add, EditMode, LogitEdit, Replace, Rerank, TokenLogitEdit
from nextword.functional.copy_scores import CopyScores, TextRead, WordScores
from nextword.heads.context import Context
from nextword.heads.head import CachedModule
from nextword.heads.input_states import FAINT, Dimensions, Projection, modifiers
from nextword.heads.local_embeddings import LocalEmbeddings, past_positions, past_words, source_positions, source_words
from nextword.settings.config import Settings
from nextword.settings.specs import Modifier, ModifierEntry

_CHANGES: dict[Mode, EditMode] = {"assign": Replace(), "add": Add()}


def partition_of(config: PartitionConfig | None, width: int, dimensions: Dimensions, bias: bool) -> CachedModule:
    """The module that changes scores for a head's partitions; ``NoEdits`` if ``config`` is None (no partitions)."""
    return NoEdits() if config is None else Partition(config, width, dimensions, bias)


class NoEdits(CachedModule):
    """Used by a head without partitions: scores are not changed."""

    def forward(self, context: Context) -> list[LogitEdit]:
        return []


class Partition(CachedModule):
    """Changes softmax scores of the tokens in up to three partitions: earlier tokens, source tokens and likely tokens.

    Formula, in mode ``assign``: the first line whose condition is true gives the score of the token v, whose output
    embedding is ``w_v``. ``x_s`` is a token of the text; ``y_s`` is a token of the source, and ``e_s`` the encoder's
    state there. C, E, R_j, S, PD, LD, PE and LE are learned projections::

        z_v = C q_t . w_v + mean_{s < t: x_s = v} PD q_t . LD q_s      if v occurred before t
            = E q_t . w_v + mean_{s: y_s = v}     PE q_t . LE e_s      if v is a word of the source
            = R_j q_t . w_v                                            for the last step j whose candidates hold v
            = S q_t . w_v                                              otherwise

    The means are added only with the setting ``pointer``. In mode ``add`` (``rerank_mode`` for the third line), the
    value of a line is added to the score that v has without this line. With ``pointer`` but neither ``context`` nor
    ``encoder``, ``mean PD q_t . LD q_s`` is added to the scores of tokens that occurred before t.

    Source: Softmax-CPR (Chang et al. 2023), context, encoder, pointer and reranker partitions.

    Raises:
        ValueError: If a partition needs a source and the model has none, or if a reranking step has more candidates
            than the vocabulary has tokens.
    """

    def __init__(self, config: PartitionConfig, width: int, dimensions: Dimensions, bias: bool) -> None:
        super().__init__()
        self.config = config
        if config.encoder and dimensions.source is None:
            raise ValueError(
                "+e: needs a source, and a decoder-only model has none; use +c, or attach a "
                "conditioner, whose auxiliary text is the source"
            )
        if config.rerank and config.rerank[-1] > dimensions.vocab_size:
            given = config.rerank[-1]
            raise ValueError(f"+r: candidates must be at most {dimensions.vocab_size}, the vocabulary ({given} given)")
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

    def forward(self, context: Context) -> list[LogitEdit]:
        config = self.config
        edits: list[LogitEdit] = []
        if config.rerank:
            queries = torch.stack([reranker(context.inputs) for reranker in self.rerankers], 1)
            from_initial = config.candidates == "initial"
            edits.append(Rerank(queries, config.rerank[::-1], self._rerank_change, from_initial))
        if config.encoder:
            edits.append(self._edit("encoder", context, "source", self.encoder, self.source_local))
        if config.context or self.local is not None:
            name = "context" if config.context else "pointer"
            edits.append(self._edit(name, context, "text", self.context, self.local))
        return edits

    def _edit(
        self,
        name: str,
        context: Context,
        text: TextRead,
        projection: Projection | None,
        local: LocalEmbeddings | None,
    ) -> TokenLogitEdit:
        """New scores of tokens that occurred: from a separate query, the mean over their positions, or both."""
        if text == "source":
            assert context.source is not None
            ids, visible, (words, present) = context.source.ids, source_positions(context), source_words(context)
        else:
            assert context.memory is not None
            ids, visible = context.memory.ids, past_positions(context, self.config.include_current)
            words, present = past_words(context, self.config.include_current)
        values = []
        similarities = context.states.new_zeros(1, 1).expand(visible.shape)  # every position has the same weight
        if projection is not None:
            values.append(context.word_scores(projection(context.inputs), words.ids, self._change))
        if local is not None:
            similarities = local.entries(context).scores
            values.append(words.mean(similarities, visible, context.row))
        value = values[0] if len(values) == 1 else values[0] + values[1]
        positions = CopyScores(ids, context.row, similarities, visible, text=text)
        return TokenLogitEdit(name, WordScores(words, context.row, value, present), self._change, positions)


# -- The settings of partitions, and the letters of ``+cepr:20,100``, which are short forms of settings.

Mode = Literal["assign", "add"]


def _ascending(sizes: Any) -> Any:
    whole = isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes)
    return tuple(sorted(sizes)) if whole else sizes


class PartitionConfig(Settings):
    """Settings of a head's partitions. Mode ``assign`` replaces the scores of their tokens, ``add`` adds to them."""

    context: bool = False
    """C: tokens that occurred before in the decoder's sequence."""
    encoder: bool = False
    """E: tokens of the source."""
    pointer: bool = False
    """P: local embeddings. The mean, over a token's positions, of their products with the query is added to the token's
    score of C or E, or without C and E to the token's dense score."""
    rerank: Annotated[tuple[int, ...], BeforeValidator(_ascending)] = ()
    """R: number of candidates of each reranking step, in any order; the step with the most candidates is first."""
    mode: Mode | None = None
    """How C, E and P change a score. None: ``assign``, or ``add`` for P without C and E (published)."""
    rerank_mode: Mode = "assign"
    """How R changes a score."""
    candidates: Literal["previous", "initial"] = "previous"
    """Scores by which a reranking step chooses its candidates: those after the step before it (``previous``), or those
    before the first step (``initial``)."""
    include_current: bool = False
    """Whether the context includes the current token (the paper's figure) or only earlier tokens (published code)."""

    @model_validator(mode="after")
    def _something(self) -> PartitionConfig:
        if not (self.context or self.encoder or self.pointer or self.rerank):
            raise ValueError("must have at least one of context, encoder, pointer and rerank")
        if any(size < 1 for size in self.rerank) or len(set(self.rerank)) < len(self.rerank):
            raise ValueError(f"rerank: must be different positive numbers of candidates ({self.rerank} given)")
        return self

    @property
    def word_mode(self) -> Mode:
        """``mode``, or the mode that None stands for."""
        return self.mode or ("assign" if self.context or self.encoder else "add")


def _letters() -> tuple[str, ...]:
    """All combinations of letters in any order, the usual order first; ``d`` is an alias of ``c``."""
    chosen = ["".join(choice) for choice in product(("", "c", "d"), ("", "e"), ("", "p"), ("", "r"))]
    spelled = ["".join(letters) for choice in chosen if choice for letters in permutations(choice)]
    return tuple(dict.fromkeys([*filter(None, chosen), *spelled]))


@modifiers.register("cepr", aliases=_letters())
class PartitionModifier(Modifier):
    """The modifiers ``+c``, ``+e``, ``+p``, ``+r:K`` and combinations such as ``+cepr:20`` or ``+cpr:20,100``."""

    field: ClassVar[str] = "partition"
    usage: ClassVar[str] = "+ any of the letters c, e, p, r such as +cpr:20,100"
    entries: ClassVar[tuple[ModifierEntry, ...]] = (
        ModifierEntry(
            "+c", "Context: words that occurred before are scored by a query of their own.", "softmax+c", "cpr"
        ),
        ModifierEntry("+e", "Encoder: words of the source are scored by a query of their own.", "softmax+e", "cpr"),
        ModifierEntry(
            "+p", "Pointer: positions of the text or source have embeddings, and score their words.", "softmax+p", "cpr"
        ),
        ModifierEntry(
            "+r:K", "Reranker: the K best tokens are scored again by a query of their own.", "softmax+r:20,100", "cpr"
        ),
        ModifierEntry("+cpr:K, ...", "Any of these letters together.", "softmax+cpr:20,100+mi", "cpr"),
    )

    @staticmethod
    def parse(name: str, arguments: list[str]) -> dict[str, Any]:
        if "r" not in name and arguments:
            raise ValueError(f"'+{name}' takes no arguments ({','.join(arguments)!r} given); only r has sizes")
        if "r" in name and not (arguments and all(size.isdecimal() and int(size) for size in arguments)):
            given = f"{','.join(arguments)!r} given" if arguments else "nothing given"
            raise ValueError(f"'+{name}' must be followed by numbers of candidates such as {name}:20,100 ({given})")
        parts = {"context": "cd", "encoder": "e", "pointer": "p"}
        found: dict[str, Any] = {part: True for part, letters in parts.items() if set(name) & set(letters)}
        return found | ({"rerank": tuple(int(size) for size in arguments)} if arguments else {})

    @staticmethod
    def write(value: PartitionConfig | None) -> tuple[str, list[str]] | None:
        if value is None:
            return None
        parts = {"c": value.context, "e": value.encoder, "p": value.pointer, "r": bool(value.rerank)}
        return "".join(letter for letter, there in parts.items() if there), [str(size) for size in value.rerank]
