"""Cuts texts longer than a model's window into windows, also for heads that look back further than a window."""

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
    """A window of a text's tokens (``stream``): its inputs are ``stream[begin : begin + size]``.

    Each input has one target, the next token of the stream. The last ``scored`` of these ``size`` targets are scored.
    """

    begin: int
    size: int
    scored: int

    @property
    def targets(self) -> range:
        """Indices of the scored tokens in the stream."""
        end = self.begin + self.size + 1
        return range(end - self.scored, end)


def windows_after(first: int, length: int, size: int, stride: int) -> list[Window]:
    """Cuts a stream of ``length`` tokens into windows in which each token from index ``first`` on is scored once.

    Each window has ``size`` inputs, or fewer if the whole stream is shorter. The first window scores all its targets
    from ``first`` on. Each later window scores its last ``stride`` targets, or as many as remain. So a token after the
    first window has more than ``size - stride`` tokens before it. If the prompt (the tokens before ``first``) has more
    than ``size`` tokens, the first window also scores only ``stride`` tokens.

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
    """As ``windows_after``, but a prompt of more than ``size`` tokens also gets windows, which come first.

    >>> [(w.begin, list(w.targets)) for w in windows_from_start(6, 8, size=4, stride=2)]
    [(0, [1, 2, 3, 4]), (1, [5]), (3, [6, 7])]
    """
    before = windows_after(1, first, size, stride) if first > size else []
    return before + windows_after(first, length, size, stride)


@dataclass(frozen=True)
class ScoringWindow:
    """Size of the windows with which texts are scored.

    Attributes:
        window: Number of tokens per window; None: each target is scored as a whole, after its context.
        stride: Number of new tokens that each window after the first scores; None only if ``window`` is None.
        long: Number of tokens that the head looks back, across windows. None: the head sees only the current window.
    """

    window: int | None = None
    stride: int | None = None
    long: int | None = None

    def windows(self, context: int, length: int) -> list[Window]:
        """Cuts ``length`` tokens into windows. The first ``context`` tokens get no score. [] if ``window`` is None."""
        if self.window is None or self.stride is None:
            return []
        # a head that looks back further than a window must also read the context
        cut = windows_after if self.long is None else windows_from_start
        return cut(context, length, self.window, self.stride)


# -- The tokens of a window, as spans with targets.


@dataclass(frozen=True)
class TargetSpan:
    """Tokens to score (``target``), and the tokens before them (``context``, at least one)."""

    context: list[int]
    target: list[int]


@dataclass(frozen=True)
class WindowSpan(TargetSpan):
    """The part of a text in one window. The target is empty if the window has only context.

    Attributes:
        begin: Index, in context and text together, of the token from which positions in answers count: the window's
            first token, or with a head cache the first token that the cache keeps.
        example: The example that the text is from, for further inputs of the model.
    """

    begin: int
    example: Any = None


def window_spans(
    ids: Int[np.ndarray, "M"], windows: Sequence[Window], first: int, example: Any = None
) -> Iterator[WindowSpan]:
    """Yields the span of each of ``windows`` over the text ``ids``. Only tokens from index ``first`` on are targets."""
    for window in windows:
        end = window.begin + window.size + 1
        cut = min(max(window.targets.start, first), end)
        yield WindowSpan(ids[window.begin : cut].tolist(), ids[cut:end].tolist(), window.begin, example)


# -- A head that looks back further than a window, and keeps values of earlier windows in its cache.


def looks_beyond_windows(model: NextWordModel) -> bool:
    """Whether a model's head looks back across windows, so that it must read the windows in order."""
    return model.next_word_head.looks_back is not None


class WindowMemory:
    """Reads the windows of a text in order, several per pass, and keeps the head's cache from window to window.

    The model is decoder-only and in evaluation mode. All windows have the same size and together cover every position.
    Results do not depend on the number of windows per pass. The first token of the first window is the start token. If
    it occurs again, another text begins there. The head sees only earlier positions of the same text.
    """

    def __init__(self, model: NextWordModel) -> None:
        self.memory: LongMemory | None = None
        self._model, self._read = model, 0

    def __call__(self, spans: Sequence[WindowSpan]) -> tuple[NextToken, Int[Tensor, "N"], list[WindowSpan]]:
        """Returns the distributions that predict N targets in ``spans``, the targets, and the spans with targets."""
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
    """Reads a text in windows, and returns an empty KV cache to which the head's cache of this text is attached.

    Generation with this KV cache continues the text, even if the text has more tokens than the model has positions::

        model = nw.attach(backbone, "cache:long=12288")
        cache = remember(model, book[:-200])
        model.generate(book[None, -200:], past_key_values=cache)

    Args:
        model: A decoder-only model whose head looks back across windows.
        ids: The text as token ids, beginning with a start token.
        window: Number of tokens that the backbone sees at once. None: its number of positions, at most 1,024.
        stride: Number of new tokens of each window after the first; None: half the window.
        batch_size: Number of windows per pass.

    Raises:
        ValueError: If the head does not look back across windows, or ``window`` exceeds the model's positions.
    """
    if not looks_beyond_windows(model):
        raise ValueError(
            "model: must have a head that looks back beyond its window (none here); attach one such as cache:long=12288"
        )
    longest = longest_of(model)
    window = window or min(longest or 1024, 1024)
    if longest is not None and window > longest:
        raise ValueError(f"window: must be at most {longest:,}, what the model can see ({window:,} given)")
    # each input needs a next token; for the last input any token does, because its prediction is not used
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
