"""Sliding windows over a long text in which every token is scored exactly once."""

from __future__ import annotations

from dataclasses import dataclass


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

    Args:
        first: Index in the stream of the first token that is scored, from 1.
        length: Tokens of the stream.
        size: Inputs of a window at most.
        stride: Tokens that each window scores after the first.
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
