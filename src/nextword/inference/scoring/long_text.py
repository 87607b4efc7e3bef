"""Likelihood of a text longer than a model can see, in windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache

from nextword.evaluation.metrics.likelihood import LikelihoodSum
from nextword.inference.scoring.opened_model import Progress, batches, longest_of
from nextword.inference.scoring.text_tokens import ids_and_bytes, start_id
from nextword.model.head_cache.kv_cache import LongMemory, put_head_cache_on
from nextword.model.training_modes import inference_mode_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from nextword.model.modeling import NextWordModel


@dataclass(frozen=True)
class TokenStream:
    """A text as tokens.

    Attributes:
        ids: A start token, and the N tokens of the text: M = N + 1.
        text_bytes: UTF-8 bytes that each token of the text covers.
    """

    ids: Int[Tensor, "M"]
    text_bytes: Int[np.ndarray, "N"]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, text: str, limit: int | None = None) -> TokenStream:
        """The first ``limit`` tokens of a text; ``None``: all.

        Raises:
            ValueError: The tokenizer has no start token, or cannot say which characters a token covers.
        """
        ids, text_bytes = ids_and_bytes(tokenizer, text)
        return cls(torch.tensor([start_id(tokenizer), *ids[:limit]]), text_bytes[:limit])

    def __len__(self) -> int:
        return len(self.ids)


def window_log_probs(
    model: NextWordModel,
    ids: Int[Tensor, "M"],
    windows: Sequence[Window],
    batch_size: int,
    progress: Progress | None = None,
) -> Iterator[Float[Tensor, "S"]]:
    """Log-probabilities of the tokens that each window scores, in float64 on the CPU.

    A head that looks back further than a window remembers those before it. The model is decoder-only and as in
    evaluation; all windows of the stream ``ids`` are of one size, and ``batch_size`` of them are read at a time.
    """
    if looks_beyond_windows(model):
        for some in remembered_windows(model, ids, windows, batch_size, progress=progress):
            log_probs = some.distribution.log_prob(some.targets[:, None])[:, 0].double().cpu()
            yield from log_probs.split(some.counts)
        return
    for part in batches(windows, batch_size, progress):
        inputs = torch.stack([ids[w.begin : w.begin + w.size] for w in part]).to(model.device)
        targets = torch.stack([ids[w.begin + 1 : w.begin + w.size + 1] for w in part]).to(model.device)
        counts = torch.tensor([w.scored for w in part], device=model.device)
        scored = torch.arange(inputs.shape[1], device=model.device)[None, :] >= inputs.shape[1] - counts[:, None]
        distribution = model.distribution(inputs, attention_mask=torch.ones_like(inputs), positions=scored)
        log_probs = distribution.log_prob(targets[scored][:, None])[:, 0].double().cpu()
        yield from torch.split(log_probs, [w.scored for w in part])


def stream_likelihood(
    model: NextWordModel,
    stream: TokenStream,
    windows: Sequence[Window],
    batch_size: int,
    progress: Progress | None = None,
) -> LikelihoodSum:
    """Nats and bytes of all that the windows score; each window is one block of the interval."""
    total = LikelihoodSum()
    found = window_log_probs(model, stream.ids, windows, batch_size, progress)
    for window, log_probs in zip(windows, found, strict=True):
        # text_bytes[i] belongs to the token at i + 1 of the stream, after the start token.
        covered = stream.text_bytes[window.targets.start - 1 : window.targets.stop - 1]
        total.add(float((-log_probs).sum()), window.scored, int(covered.sum()))
    return total


# -- A text in windows, asked of a head that looks back further than each of them.


@dataclass(frozen=True)
class Remembered:
    """Some windows of a text.

    Attributes:
        distribution: Before each of the N target tokens, those that these windows score.
        counts: How many of them each window scores.
        begin: Index in the text of the first remembered position; the positions of the distribution count from it.
    """

    distribution: Any
    targets: Int[Tensor, "N"]
    counts: list[int]
    begin: int


def looks_beyond_windows(model: NextWordModel) -> bool:
    """Whether a model's head wants the windows of a text in order, and remembers earlier ones."""
    return model.next_word_head.looks_back is not None


def remembered_windows(
    model: NextWordModel,
    ids: Int[Tensor, "M"],
    windows: Sequence[Window],
    batch_size: int,
    *,
    memory: LongMemory | None = None,
    first: int = 1,
    progress: Progress | None = None,
) -> Iterator[Remembered]:
    """Windows in order, some at a time; what the head keeps of their positions is remembered.

    Args:
        model: An attached decoder-only model, as in evaluation.
        ids: The text, or several, a start token before each: a text sees nothing of the one before.
        windows: All of one size; together they read every position from the first on.
        batch_size: Windows at a time; no number depends on it.
        memory: What is remembered is added to it; None: to one that is forgotten after the last window.
        first: Index in the text of the first token that is scored.
        progress: Told the share that is done.
    """
    memory, read = memory or LongMemory(start=int(ids[0])), 0
    for part in batches(windows, batch_size, progress):
        index = torch.stack([torch.arange(one.begin, one.begin + one.size) for one in part])
        ends = torch.tensor([read, *[one.begin + one.size for one in part[:-1]]])
        read = part[-1].begin + part[-1].size
        new = index >= ends[:, None]
        scored = new & (index + 1 >= first)
        rows, new, positions = (tensor.to(model.device) for tensor in (ids[index], new, scored))
        distribution = model.distribution(rows, memory=memory, new_positions=new, positions=positions)
        targets, counts = ids[index + 1][scored].to(model.device), scored.sum(1).tolist()
        yield Remembered(distribution, targets, counts, memory.begin)


# -- Sliding windows over a long text in which every token is scored exactly once.


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


def windows(length: int, size: int, stride: int) -> list[Window]:
    """Windows over a stream of ``length`` tokens, the first of which (the start token) is no target.

    The first window scores all its targets, later ones the last ``stride``, the last one what is left, always with
    ``size`` inputs: each token after the first window has more than ``size - stride`` tokens before it in its window.

    >>> [(w.begin, list(w.targets)) for w in windows(8, size=4, stride=2)]
    [(0, [1, 2, 3, 4]), (2, [5, 6]), (3, [7])]

    Raises:
        ValueError: The text is shorter than one window, or the stride is longer than the window.
    """
    if not 1 <= stride <= size:
        raise ValueError(f"task.stride: must be from 1 to the window of {size} ({stride} given)")
    targets = length - 1
    if targets < size:
        raise ValueError(
            f"the text has {max(targets, 0)} tokens, shorter than one window of {size}. "
            f"Give more text or a smaller task.window."
        )
    return windows_after(1, length, size, stride)


def windows_after(first: int, length: int, size: int, stride: int) -> list[Window]:
    """Windows over a stream whose first targets come after a prompt, and which may be shorter than one window.

    As ``windows``, but only the tokens from ``first`` on are scored. Where the prompt is longer than a window,
    already the first window scores ``stride`` tokens after the end of the prompt.

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


# -- A text that was read before the KV cache began, for a head that looks back further than its window.


def remember(
    model: NextWordModel,
    ids: Int[Tensor, "M"],
    *,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
) -> DynamicCache:
    """Reads a text in windows, and gives an empty KV cache behind which the head remembers it.

    What is written with the cache goes on after the text, which may be longer than the model has positions for::

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
    memory, after = LongMemory(start=int(ids[0])), len(ids) + 1
    stream = torch.cat([ids.cpu(), ids[:1].cpu()])  # what comes after the last token is not known, and not asked for
    spans = windows_after(1, after, window, stride or max(1, window // 2))
    with inference_mode_of(model):
        for _ in remembered_windows(model, stream, spans, batch_size, memory=memory, first=after):
            pass
    kv_cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    memory.before_cache()
    put_head_cache_on(kv_cache, memory)
    return kv_cache
