"""What a pass over several words costs beside a pass over one, measured on the run."""

from __future__ import annotations

_SHARE = 0.2
"""Of the latest pass in the mean of its width."""
_OUTLIER = 3.0
"""Times the mean, more than which a pass does not count: the machine did something else."""
_UNMEASURED = 0.02
"""Part of a pass over one word that each further word is taken to cost, before that is measured."""


_DOUBT = 0.01
"""Of the way to that cost which a width goes with each pass of another width."""


class PassCost:
    """Seconds of passes by their width, the words that they read in each text."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    @property
    def plain(self) -> float | None:
        """Seconds of a pass over one word; None: there was none yet."""
        return self._seconds.get(1)

    def count(self, width: int, seconds: float) -> None:
        """Notes one pass."""
        self._doubt(width)
        mean = self._seconds.get(width)
        if mean is None:
            self._seconds[width] = seconds
        else:
            self._seconds[width] = mean + _SHARE * (min(seconds, _OUTLIER * mean) - mean)

    def _doubt(self, measured: int) -> None:
        """Lets dear widths come nearer to what they cost unmeasured, or one slow pass would rule them out for ever."""
        for width, seconds in self._seconds.items():
            usual = self._seconds.get(1, seconds) * (1 + _UNMEASURED * (width - 1))
            if width != measured and seconds > usual:
                self._seconds[width] = seconds + _DOUBT * (usual - seconds)

    def ratio(self, width: int) -> float:
        """What a pass of this width costs in passes over one word, at least 1.

        A width that was not measured lies on the line between its measured neighbours.
        """
        if width == 1 or 1 not in self._seconds:
            return 1 + _UNMEASURED * (width - 1)
        below = max(one for one in self._seconds if one <= width)
        above = min((one for one in self._seconds if one > width), default=None)
        if below == width or above is None:
            slope = _UNMEASURED * self._seconds[1]
        else:
            slope = (self._seconds[above] - self._seconds[below]) / (above - below)
        return max(1.0, (self._seconds[below] + slope * (width - below)) / self._seconds[1])
