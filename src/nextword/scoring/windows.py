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
    spans = [Window(0, size, size)]
    done = size
    while done < targets:
        scored = min(stride, targets - done)
        done += scored
        spans.append(Window(done - size, size, scored))
    return spans
