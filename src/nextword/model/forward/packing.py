"""Separates the texts that are packed into one row. A text begins wherever the position ids restart."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from transformers.utils.import_utils import is_torchdynamo_compiling

from nextword.functional.probability import at_least_float32
from nextword.model.head_cache.slots import is_paged
from nextword.model.training_modes import inference_mode_of
from nextword.runtime.devices import device_of

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

# -- Why some functions are excluded from compiled graphs: the reason for each of three kinds.
#
# These functions would be slower in a graph. A graph has one size, so the loss would be computed at every position,
# padding included, from whole (N, V) tensors that are kept for the backward pass. Outside a graph nothing changes.

LOSS = "nextword: the loss is made chunk by chunk, each with its gradient, and of the positions that count alone"
SEQUENCE_UPDATE = "nextword: +seq draws whether the model continues the batch itself, which is generate"
PACKED = "nextword: positions without a mask tell the texts of a row apart, whose number and length always change"

Function = TypeVar("Function", bound=Callable[..., object])


def outside_graph(reason: str) -> Callable[[Function], Function]:
    """Decorator that excludes a function from compiled graphs; ``reason`` is shown in reports of graph breaks."""
    return cast(Callable[[Function], Function], torch.compiler.disable(reason=reason))


# -- Which rows of a pass hold several texts. The position ids show it: they restart at each text.


def text_rows_of(model: NextWordModel, given: Mapping[str, Any]) -> TextRows | None:
    """If rows hold several texts that the backbone separates, returns them as ``TextRows``; otherwise None.

    ``given`` maps argument names of ``forward`` to values. The position ids are inspected only if a loss is computed or
    the head reads earlier positions.

    Raises:
        ValueError: If the head reads earlier positions, and the backbone does not separate several texts of a row.
    """
    head, positions = model.next_word_head, given.get("position_ids")
    asks = head.remembers or "labels" in given or "shift_labels" in given
    if positions is None or positions.ndim != 2 or positions.shape[1] == 1 or is_paged(given) or not asks:
        return None
    why = _why_together(model, given, positions)
    if not why:
        return _parted(model, given, positions)
    if head.remembers and not is_torchdynamo_compiling():
        _expect_one_text_a_row(given, positions, why)
    return None


def _why_together(model: NextWordModel, given: Mapping[str, Any], positions: Tensor) -> str:
    """Why the texts of a row are not separated, and what to do; empty if transformers separates them."""
    if model.config.is_encoder_decoder or model.conditioner is not None:
        return "they have one source"
    if given.get("memory") is not None:
        return "memory continues with all rows as one text"
    if given.get("attention_mask") is not None or given.get("step_mask") is not None:
        return "with an attention_mask the backbone reads them as one, so leave it out"
    cached = given.get("past_key_values", given.get(model._cache_argument)) is not None
    if cached or given.get("use_cache"):
        return "with a KV cache the backbone reads them as one, so set use_cache=False and give none"
    if _is_flash(model) and positions.shape[0] > 1:
        return "flash attention parts the texts of a single row only, so give batches of one row"
    return ""


@outside_graph(PACKED)
def _parted(model: NextWordModel, given: Mapping[str, Any], positions: Int[Tensor, "_ T"]) -> TextRows | None:
    apart = parts_texts(model)  # tested before the positions are inspected, so that all processes take part in the test
    tokens = given["input_ids"] if "input_ids" in given else given["inputs_embeds"]
    if positions.shape[0] not in (1, tokens.shape[0]) or positions.shape[1] != tokens.shape[1]:
        return None  # the backbone raises an error for these shapes
    begins = _begins(model, positions.expand(tokens.shape[0], -1))
    if not begins[:, 1:].any():
        return None
    if not apart:
        if model.next_word_head.remembers:
            _expect_one_text_a_row(given, positions, f"{type(model.backbone).__name__} does not keep them apart")
        return None
    return TextRows.of(begins)


def _begins(model: NextWordModel, positions: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    # by the rule with which the attention separates the texts
    begins = torch.ones_like(positions, dtype=torch.bool)
    begins[:, 1:] = positions[:, 1:] != positions[:, :-1] + 1
    if _is_flash(model):
        begins[:, 1:] = positions[:, 1:] == positions.min()
    return begins


def _is_flash(model: NextWordModel) -> bool:
    return "flash" in attention_of(model)


def _expect_one_text_a_row(given: Mapping[str, Any], positions: Int[Tensor, "_ T"], why: str) -> None:
    # positions must not decrease within a row, except at padding
    back, mask = positions[:, 1:] < positions[:, :-1], given.get("step_mask", given.get("attention_mask"))
    if mask is not None:
        valid = mask[:, -positions.shape[1] :].bool() if getattr(mask, "ndim", None) == 2 else None
        if valid is None or valid.shape[1] != positions.shape[1] or positions.shape[0] not in (1, len(valid)):
            return  # the code that decides about padding rejects this mask
        back = back & valid[:, 1:] & valid[:, :-1]
    if back.any():
        raise ValueError(
            f"position_ids start again within a row: several texts packed into one row would see each other "
            f"({why}); give each text its own row"
        )


# -- Whether a backbone separates the texts of a row if position ids restart. It is tested with a row of three texts.

# types of layers without a mask, by transformers' names
_NO_ATTENTION = {"conv", "hybrid", "hybrid_sliding", "linear_attention"}
# the three texts have consecutive tokens: the first token of each text, and the length of each
_STARTS, _LENGTH = (3, 5, 9), 4
# if a backbone separates texts, earlier texts have less than this share of their usual effect, rounding included
_SHARE = 0.25


class TextReadings(NamedTuple):
    """Log-probabilities of a text: packed after other texts (``apart``), joined with them as one text, and alone."""

    apart: Float[Tensor, "T V"]
    together: Float[Tensor, "T V"]
    alone: Float[Tensor, "T V"]

    def share_left(self) -> float:
        """Effect of the other texts on this text if packed, divided by their effect if all are joined as one text."""
        return _distance(self.apart, self.alone) / _distance(self.together, self.alone)


def readings(model: NextWordModel) -> TextReadings | None:
    """Runs the backbone on a short text packed, joined and alone. None if the backbone cannot run without a mask.

    Transformers separates the texts of a row by their positions if it gets neither a mask nor a cache. With a mask of
    ones it does not separate them.
    """
    embedding = model.get_input_embeddings()
    device, known = device_of(embedding), embedding.weight.shape[0]
    texts = tuple(torch.arange(start, start + _LENGTH, device=device) % known for start in _STARTS)
    ones = torch.ones(1, len(texts) * _LENGTH, dtype=torch.long, device=device)
    try:
        apart, together = _last(model, texts), _last(model, texts, attention_mask=ones)
    except Exception:  # any error: the backbone cannot read a row without a mask, so it cannot read packed texts
        return None
    return TextReadings(apart, together, _last(model, texts[-1:]))


def parts_texts(model: NextWordModel) -> bool:
    """Whether the backbone separates packed texts: it has no recurrent layer, and ``share_left`` is below a quarter.

    This is tested once per attention implementation.
    """
    known: dict[str, bool] = model._parts_texts
    kind = attention_of(model)
    if kind not in known:
        with inference_mode_of(model.backbone):
            found = None if carries_over(model) else readings(model)
        known[kind] = found is not None and found.share_left() < _SHARE
    return known[kind]


def attention_of(model: NextWordModel) -> str:
    """The name of the attention implementation in transformers."""
    return str(model.config.get_text_config(decoder=True)._attn_implementation)


def carries_over(model: NextWordModel) -> bool:
    """Whether the model has layers other than attention that carry a state from position to position."""
    kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or [])
    return getattr(model.backbone, "_is_stateful", False) or bool(kinds & _NO_ATTENTION)


def packed_row(model: NextWordModel, texts: tuple[Tensor, ...]) -> dict[str, Any]:
    """Arguments of ``forward`` for ``texts`` packed into one row, with position ids that restart at each text."""
    positions = torch.cat([torch.arange(len(text), device=text.device) for text in texts])[None]
    inputs: dict[str, Any] = {"input_ids": torch.cat(texts)[None], "position_ids": positions + first_position(model)}
    taken = inspect.signature(model.backbone.forward).parameters.values()
    if any(one.name == "use_cache" or one.kind is one.VAR_KEYWORD for one in taken):
        inputs["use_cache"] = False  # with a cache, transformers does not separate texts
    return inputs


def first_position(model: NextWordModel) -> int:
    """Position id of a first token: 0, or in models like RoBERTa the id after the padding position."""
    named = model.backbone.named_modules()
    tables = [part for name, part in named if isinstance(part, nn.Embedding) and "position" in name.rpartition(".")[2]]
    kept = [table.padding_idx for table in tables if table.padding_idx is not None]
    return max(kept) + 1 if kept else 0


def _last(model: NextWordModel, texts: tuple[Tensor, ...], **more: Any) -> Float[Tensor, "T V"]:
    logits = model.backbone(**packed_row(model, texts), **more).logits
    return at_least_float32(logits[0, -len(texts[-1]) :]).log_softmax(-1)


def _distance(a: Tensor, b: Tensor) -> float:
    """The largest difference, always above 0. If a token has ``-inf`` in both, it does not count."""
    return float((a - b).abs().masked_fill(a == b, 0.0).max().clamp_min(torch.finfo(a.dtype).tiny))


# -- The texts of packed rows, moved to one row each.


@dataclass(frozen=True)
class TextRows:
    """For each position of a packed batch: its row and position after each text is moved to a row of its own.

    Args:
        row: For each position, the row to which its text is moved.
        position: For each position, its index within its text.
        count: Number of texts.
        longest: Length of the longest text.
    """

    row: Int[Tensor, "B T"]
    position: Int[Tensor, "B T"]
    count: int
    longest: int

    @classmethod
    def of(cls, begins: Bool[Tensor, "B T"]) -> TextRows:
        """Makes the rows from a mask of the positions at which texts begin; every row begins with a text.

        >>> found = TextRows.of(torch.tensor([[True, False, True], [True, False, False]]))
        >>> found.laid_out(torch.tensor([[3, 4, 5], [6, 7, 8]]))
        tensor([[3, 4, 0],
                [5, 0, 0],
                [6, 7, 8]])
        """
        at = torch.arange(begins.shape[1], device=begins.device).expand(begins.shape)
        position = at - at.masked_fill(~begins, 0).cummax(1).values
        row = begins.flatten().cumsum(0).view_as(position) - 1
        return cls(row, position, int(row[-1, -1]) + 1, int(position.max()) + 1)

    @property
    def ends(self) -> Bool[Tensor, "B T"]:
        """A mask: True at the last position of each text."""
        return torch.nn.functional.pad(self.position[:, 1:] == 0, (0, 1), value=True)

    def laid_out(self, packed: Shaped[Tensor, "B T ..."]) -> Shaped[Tensor, "R L ..."]:
        """Moves the values of a packed batch to one row per text; 0 or False after the end of a text."""
        empty = packed.new_zeros(self.count, self.longest, *packed.shape[2:])
        return empty.index_put((self.row, self.position), packed)
