"""Fields that a metric can do without: either every sample has one, or none has."""

from __future__ import annotations

from nextword.evaluation.metrics.parts.sample import MissingFieldError, Sample


class AllOrNone:
    """Watches a field that may be absent. The first sample decides, so that no value is of a part of the samples only.

    Args:
        field: Its name, for the message.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._first: tuple[bool, str] | None = None

    def has(self, sample: Sample, present: bool) -> bool:
        """Whether the samples have it.

        Args:
            sample: The next one.
            present: Whether this one has it.

        Raises:
            MissingFieldError: It differs from the first sample.
        """
        if self._first is None:
            self._first = (present, sample.place)
        first, place = self._first
        if present != first:
            lacking, having = (place, sample.place) if present else (sample.place, place)
            raise MissingFieldError(
                f"{lacking}: no '{self._field}', which {having} has; give it on every line or on none"
            )
        return present
