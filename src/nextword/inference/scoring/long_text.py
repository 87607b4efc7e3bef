"""A text longer than a model can see, in windows; and a head that looks back further than each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import DynamicCache

from nextword.distribution import NextToken
from nextword.inference.scoring.opened_model import batches, longest_of
from nextword.model.head_cache.kv_cache import LongMemory, put_head_cache_on
from nextword.model.training_modes import inference_mode_of

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class Window:
    """Inputs ``stream[begin : begin + size]``; of their ``size`` next tokens the last ``scored`` are scored."""

    begin: int
    size: int
    scored: int

    @property
    def targets(self) -> range:
        """Indices in the stream of the scored tokens."""
        end = self.begin + self.size + 1
        return range(end - self.scored, end)


def windows_after(first: int, length: int, size: int, stride: int) -> list[Window]:
    """Windows over a stream of ``length`` tokens, of which those from ``first`` on are scored, each once.

    The first window scores all its targets, later ones the last ``stride``, the last one what is left, always with
    ``size`` inputs, or as many as there are: each token after the first window has more than ``size - stride`` tokens
    before it in its window. Where the prompt is longer than a window, already the first one scores ``stride`` tokens.

    >>> [(w.begin, list(w.targets)) for w in windows_after(1, 8, size=4, stride=2)]
    [(0, [1, 2, 3, 4]), (2, [5, 6]), (3, [7])]
    >>> [(w.begin, w.size, list(w.targets)) for w in windows_after(3, 5, size=8, stride=4)]
    [(0, 4, [3, 4])]
    >>> [(w.begin, list(w.targets)) for w in windows_after(5, 9, size=4, stride=2)]
    [(2, [5, 6]), (4, [7, 8])]
    """
    size = min(size, length - 1)
    spans = [Window(0, size, size + 1 - first)] if first <= size else []
    done = size if spans else first - 1
    while done < length - 1:
        scored = min(stride, length - 1 - done)
        done += scored
        spans.append(Window(done - size, size, scored))
    return spans


def windows_from_start(first: int, length: int, size: int, stride: int) -> list[Window]:
    """As ``windows_after``, with those before it that read the beginning of a prompt longer than a window.

    >>> [(w.begin, list(w.targets)) for w in windows_from_start(6, 8, size=4, stride=2)]
    [(0, [1, 2, 3, 4]), (1, [5]), (3, [6, 7])]
    """
    before = windows_after(1, first, size, stride) if first > size else []
    return before + windows_after(first, length, size, stride)


@dataclass(frozen=True)
class ScoringWindow:
    """How much of a text a model sees at once.

    Attributes:
        window: Tokens; None: each target as a whole, after its context.
        stride: New tokens that each window after the first scores.
        long: Tokens that its head looks back over, of windows that came before too; None: those of the window.
    """

    window: int | None = None
    stride: int | None = None
    long: int | None = None

    def windows(self, context: int, length: int) -> list[Window]:
        """The windows of a text of so many tokens, the first of them its context; none where it is read as a whole."""
        if self.window is None or self.stride is None:
            return []
        # a head that looks back further than a window reads the context first
        cut = windows_after if self.long is None else windows_from_start
        return cut(context, length, self.window, self.stride)


# -- What a window holds, as tokens to be asked about.


@dataclass(frozen=True)
class TargetSpan:
    """Tokens that a model is asked about, the ``target``, and what it reads before them, a token at least."""

    context: list[int]
    target: list[int]


@dataclass(frozen=True)
class WindowSpan(TargetSpan):
    """The part of a text that one window reads; its target is empty where that reads of the text's context alone.

    Attributes:
        begin: Index in the text, its context included, of the position that positions count from: the first one that is
            read, or that is remembered.
        example: What it is a part of, for further inputs of the model.
    """

    begin: int
    example: Any = None


def window_spans(
    ids: Int[np.ndarray, "M"], windows: Sequence[Window], first: int, example: Any = None
) -> Iterator[WindowSpan]:
    """What each window of a text reads; its tokens from ``first`` on are targets."""
    for window in windows:
        end = window.begin + window.size + 1
        cut = min(max(window.targets.start, first), end)
        yield WindowSpan(ids[window.begin : cut].tolist(), ids[cut:end].tolist(), window.begin, example)


# -- A head that looks back further than a window, and remembers those before it.


def looks_beyond_windows(model: NextWordModel) -> bool:
    """Whether a model's head wants the windows of a text in order, and remembers earlier ones."""
    return model.next_word_head.looks_back is not None


class WindowMemory:
    """Reads the windows of a text in order, some at a time; what the head keeps of their positions is remembered.

    The model is decoder-only and as in evaluation. All windows are of one size, together they read every position from
    the first on, and no number depends on how many of them are read at a time. Of several texts in one, each with a
    start token before it, none sees the one before.
    """

    def __init__(self, model: NextWordModel) -> None:
        self.memory: LongMemory | None = None
        self._model, self._read = model, 0

    def __call__(self, spans: Sequence[WindowSpan]) -> tuple[NextToken, Int[Tensor, "N"], list[WindowSpan]]:
        """The distribution before each of the N target tokens, these tokens, and the windows that have any."""
        ids = torch.tensor([[*span.context, *span.target] for span in spans])
        if self.memory is None:
            self.memory = LongMemory(start=int(ids[0, 0]))
        begins, size = torch.tensor([span.begin for span in spans]), ids.shape[1] - 1
        ends = torch.cat([torch.tensor([self._read]), begins[:-1] + size])
        self._read = int(begins[-1]) + size
        inside = torch.arange(size)[None, :]
        new = begins[:, None] + inside >= ends[:, None]
        scored = inside >= size - torch.tensor([len(span.target) for span in spans])[:, None]
        rows, new, positions = (tensor.to(self._model.device) for tensor in (ids[:, :-1], new, scored))
        distribution = self._model.distribution(rows, memory=self.memory, new_positions=new, positions=positions)
        asked = [replace(span, begin=self.memory.begin) for span in spans if span.target]
        return distribution, ids[:, 1:][scored].to(self._model.device), asked


def remember(
    model: NextWordModel,
    ids: Int[Tensor, "M"],
    *,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
) -> DynamicCache:
    """Reads a text in windows, and gives an empty KV cache behind which the head remembers it.

    What is written with the cache continues after the text, which may be longer than the model has positions for::

        model = nw.attach(backbone, "cache:long=12288")
        cache = remember(model, book[:-200])
        model.generate(book[None, -200:], past_key_values=cache)

    Args:
        model: A decoder-only model of ours whose head looks back beyond its window.
        ids: The text, a start token first.
        window: Tokens that the backbone sees at once; by default its positions, at most 1,024.
        stride: New tokens of each window after the first; by default half a window.
        batch_size: Windows at a time.

    Raises:
        ValueError: The head looks back over its window alone, or the window does not fit.
    """
    if not looks_beyond_windows(model):
        raise ValueError(
            "model: must have a head that looks back beyond its window (none here); attach one such as cache:long=12288"
        )
    longest = longest_of(model)
    window = window or min(longest or 1024, 1024)
    if longest is not None and window > longest:
        raise ValueError(f"window: must be at most {longest:,}, what the model can see ({window:,} given)")
    # what comes after the last token is not known, and not asked for
    stream = torch.cat([ids, ids[:1]]).cpu().numpy()
    read, spans = WindowMemory(model), windows_after(1, len(stream), window, stride or max(1, window // 2))
    with inference_mode_of(model):
        for part in batches(list(window_spans(stream, spans, len(stream))), batch_size):
            read(part)
    assert read.memory is not None
    kv_cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    read.memory.before_cache()
    put_head_cache_on(kv_cache, read.memory)
    return kv_cache
