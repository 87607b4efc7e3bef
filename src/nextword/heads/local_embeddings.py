"""Local embeddings: one embedding per position of the text or source, computed from its state."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nextword.functional.copy_scores import CopyScores, TextRead, UniqueTokens
from nextword.functional.keys_in_place import Keys
from nextword.functional.probability import at_least_float32
from nextword.heads.context import Context, Memory, Source
from nextword.heads.head import CachedModule, HeadConfig
from nextword.heads.input_states import FAINT, Dimensions, MultiInputConfig, Projection
from nextword.runtime.devices import precision_of


class PointerConfig(HeadConfig):
    """Settings shared by heads that point at positions of the text or source."""

    mi: MultiInputConfig | None = None
    """Multiple input states of the projections; None: only the last state."""
    bias: bool = True
    """Whether the projections have a bias (published: GPT-2 yes, T5 no)."""
    include_current: bool = False
    """Whether a position can point at its own token."""


class LocalEmbeddings(CachedModule):
    """Computes queries ``p_t = PD q_t`` and local embeddings ``e_s = LD q_s``, with learned projections PD and LD.

    For positions of the source, it computes ``p_t = PE q_t`` and ``e_s = LE state_s``, where ``state_s`` is the
    encoder's state at position s, and PE and LE are learned projections too.

    Source: Softmax-CPR, "local" word embeddings of the pointer partition and of the pointer baselines.

    Args:
        width: Width of ``q_t``, the input of the projections.
        dimensions: Sizes of the model.
        source: Whether the positions are those of the source.
        bias: Whether PD, LD and PE have a bias. LE never has one, as in the published code.
        include_current: Whether a position sees its own token.
        activation: Function applied to the local embeddings; None: they are not changed.
    """

    remembers = True

    def __init__(
        self,
        width: int,
        dimensions: Dimensions,
        *,
        source: bool,
        bias: bool,
        include_current: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.reads_source = source
        self.include_current = include_current
        self.activation = activation
        self.query = Projection(width, dimensions.hidden, bias=bias, scale=FAINT)
        read = dimensions.source if source else width
        assert read is not None
        self.key = Projection(read, dimensions.hidden, bias=bias and not source, scale=FAINT)

    @classmethod
    def of_pointer(
        cls,
        config: PointerConfig,
        width: int,
        dimensions: Dimensions,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> LocalEmbeddings:
        """Local embeddings of the source if the model has one, otherwise of the earlier positions."""
        return cls(
            width,
            dimensions,
            source=dimensions.source is not None,
            bias=config.bias,
            include_current=config.include_current,
            activation=activation,
        )

    def _embedded(self, states: Tensor) -> Tensor:
        embedded = _mapped(self.key, states)
        return embedded if self.activation is None else self.activation(embedded)

    def queries(self, context: Context) -> Float[Tensor, "N D"]:
        """The query ``p_t`` at each position."""
        return _mapped(self.query, context.inputs)

    def streams(self, inputs: Float[Tensor, "B T Q"]) -> dict[str, Tensor]:
        return {} if self.reads_source else {"local": self._embedded(inputs)}

    def source_streams(self, states: Float[Tensor, "B E _"]) -> dict[str, Tensor]:
        return {"local": self._embedded(states)} if self.reads_source else {}

    def positions(self, context: Context) -> tuple[Int[Tensor, "B S"], Keys, Bool[Tensor, "N S"]]:
        """Token and local embedding of each stored position, and whether each position of ``context`` sees it."""
        if self.reads_source:
            assert context.source is not None
            return context.source.ids, at_least_float32(context.source.streams["local"]), source_positions(context)
        assert context.memory is not None
        visible = past_positions(context, self.include_current)
        return context.memory.ids, context.memory.keys("local"), visible

    @property
    def text(self) -> TextRead:
        return "source" if self.reads_source else "text"

    def entries(self, context: Context) -> CopyScores:
        """The tokens at the stored positions, with the scores ``p_t . e_s`` of these positions."""
        ids, keys, visible = self.positions(context)
        scores = context.similarities(self.queries(context), keys)
        return CopyScores(ids, context.row, scores, visible, text=self.text)


def _mapped(projection: Projection, states: Tensor) -> Tensor:
    """Applies the projection without autocast to float16, in which the small initial weights would underflow."""
    device = states.device.type
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) is not torch.float16:
        return at_least_float32(projection(states))
    with torch.autocast(device, enabled=False):
        return at_least_float32(projection(states.to(precision_of(projection))))


# -- Positions of the earlier text and of the source that each position may see, and the distinct tokens there.
#
# Position t has read its own token ``x_t`` and predicts ``x_{t+1}``. Padding, unknown tokens and ids beyond the
# output layer are never seen. (An input embedding may have rows that the output layer lacks.)


def past_positions(context: Context, include_current: bool, last: int | None = None) -> Bool[Tensor, "N S"]:
    """A mask of the S kept positions that each of N positions sees: those before it, and optionally its own.

    Args:
        context: Context of a head that remembers earlier positions; for any other head ValueError is raised.
        include_current: Whether a position sees its own token.
        last: Number of nearest tokens that a position sees, padding not counted; None: all. If below 1, ValueError is
            raised.
    """
    memory = _memory(context)
    position = torch.arange(memory.ids.shape[1], device=memory.ids.device)
    past = position < (context.position + include_current)[:, None]
    seen = _known(memory, context)[context.row] & past
    if last is None:
        return seen
    if last < 1:
        raise ValueError(f"last: must be at least 1 ({last} given); give None for all positions")
    number = (memory.valid[context.row] & past).cumsum(1)
    return seen & (number > number[:, -1:] - last)


def past_words(
    context: Context, include_current: bool, last: int | None = None
) -> tuple[UniqueTokens, Bool[Tensor, "N U"]]:
    """The distinct tokens of each sequence, and a mask of those U tokens that each of N positions sees.

    A position sees the tokens at the positions that ``past_positions`` returns for these arguments.
    """
    memory = _memory(context)
    words = UniqueTokens.of(memory.ids, _known(memory, context))
    if last is None:
        return words, words.seen(context.row, context.position + include_current)
    return words, words.at(past_positions(context, include_current, last), context.row)


def source_positions(context: Context) -> Bool[Tensor, "N E"]:
    """A mask of the E source positions that each of N positions sees; padding and unknown ids are left out."""
    return _known(_source(context), context)[context.row]


def source_words(context: Context) -> tuple[UniqueTokens, Bool[Tensor, "N U"]]:
    """The distinct tokens of each source, and a mask of those U tokens that occur in each position's source."""
    source = _source(context)
    words = UniqueTokens.of(source.ids, _known(source, context))
    return words, words.occurring(context.row)


def _memory(context: Context) -> Memory:
    if context.memory is None:
        raise ValueError(
            "memory: must be kept by a head that reads earlier positions (none kept); set remembers = True in its class"
        )
    return context.memory


def _source(context: Context) -> Source:
    if context.source is None:
        raise ValueError(
            "source: must be available to a head that uses it (none given); set reads_source = True in its class, and "
            "attach it to an encoder-decoder model or with a conditioner"
        )
    return context.source


def _known(text: Memory | Source, context: Context) -> Bool[Tensor, "B S"]:
    return text.valid & (text.ids < context.vocabulary.size)
