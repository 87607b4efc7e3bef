"""A history whose streams grow with the text, for dynamic KV caches and for a single pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from nextword.functional.row_alignment import known_at_end
from nextword.heads.pass_memory import IDS, VALID
from nextword.model.head_cache.growing_tensor import GrowingTensor
from nextword.model.head_cache.history import History, unknown

_CROPPABLE = 64
"""Places beyond its width that a window keeps, so that rejected candidates can be taken back; streams that forget their
oldest places likewise."""


class GrowingHistory(History):
    """Grows by itself, and every move is possible. Where ``looked_back`` is set it forgets what lies before.

    Args:
        unseen: Places that were in the KV cache before this history was attached; nothing is known of them.
    """

    def __init__(self, unseen: int = 0) -> None:
        self._streams: dict[str, GrowingTensor] = {}
        self._windows: dict[str, GrowingTensor] = {}
        self._source: dict[str, Tensor] = {}
        self._unseen = unseen
        self._begin = 0
        """Where the first place that is kept stands in the KV cache; less than 0 where it came before the cache."""

    @property
    def length(self) -> int:
        """Places of the text so far that the KV cache has counted."""
        return self._begin + (self._kept if self._streams else self._unseen)

    @property
    def _kept(self) -> int:
        return self._streams[IDS].places.shape[1] if self._streams else 0

    def write(self, new: Mapping[str, Tensor]) -> int:
        """Adds the new places behind all others; returns where the first of them is read."""
        self._expect_reach()
        if not self._streams and not self._unseen:
            self._streams = {name: GrowingTensor(stream) for name, stream in new.items()}
            return 0
        if not self._streams:
            self._streams = {name: GrowingTensor(unknown(stream, self._unseen)) for name, stream in new.items()}
        kept, count = self._kept, new[IDS].shape[1]
        at_most = None if self.looked_back is None else self.looked_back + max(_CROPPABLE, count)
        for name, stream in new.items():
            self._streams[name].append(stream, at_most)
        first = self._kept - count
        self._begin += kept - first
        return first

    def _expect_reach(self) -> None:
        """Raises ValueError where places that are to be read again were forgotten."""
        if self._begin > 0 and (self.looked_back is None or self._kept < self.looked_back):
            raise ValueError(
                f"the cache was cropped by more than {_CROPPABLE} places, or is to be looked back over further than "
                "before, and the head has forgotten what lies there (long); run the model on the text again"
            )

    def read(self) -> dict[str, Tensor]:
        """All places of every stream that are kept; what was returned before keeps its values."""
        return {name: stream.places for name, stream in self._streams.items()}

    def preceded(self, name: str, new: Tensor, places: int) -> Tensor:
        """As in the contract; some places more than those are kept, for a crop."""
        if name not in self._windows:
            self._windows[name] = GrowingTensor(new.new_zeros(new.shape[0], places, *new.shape[2:]))
        window = self._windows[name]
        if window.places.shape[1] < places:
            raise ValueError(
                f"the cache was cropped by more than {_CROPPABLE} places, and the head kept no more of the states that "
                f"it reads (+mi). For assisted generation set num_assistant_tokens to at most {_CROPPABLE} and "
                "num_assistant_tokens_schedule to 'constant'; otherwise crop less, or run the model on the text again"
            )
        window.append(new, at_most=places + max(_CROPPABLE, new.shape[1]))
        return window.places[:, -(places + new.shape[1]) :]

    def of_source(self, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        """As in the contract."""
        if not self._source:
            self._source = dict(make())
        return self._source

    @property
    def knows_source(self) -> bool:
        """Whether something is kept of a source."""
        return bool(self._source)

    def reserve(self, places: int) -> None:
        """Nothing to do: the streams grow by themselves."""

    def reset(self) -> None:
        """Forgets everything."""
        self._streams, self._windows, self._source = {}, {}, {}
        self._unseen, self._begin, self.virtual = 0, 0, 0

    def crop(self, change: int) -> None:
        """Forgets the last ``-change`` places."""
        if change >= 0:
            return
        if not self._streams:
            self._unseen = max(0, self._unseen + change)
        elif self._kept + change <= 0:
            self._begin = max(0, self.length + change)
            self._streams, self._windows, self._unseen = {}, {}, 0
        for stream in self._tensors:
            stream.crop(change)

    def align(self, dropped: Tensor, length: int) -> None:
        """As in the contract. Places that a sequence never had are padding."""
        if not self._streams:
            self._unseen = length
            return
        kept = length - self._begin
        valid = known_at_end(self._streams[VALID].places, dropped, kept)
        for stream in self._streams.values():
            stream.align(dropped, kept)
        self._streams[VALID] = GrowingTensor(valid)
        most = int(dropped.max())
        for window in self._windows.values():  # of the last places alone, so each keeps what all sequences have
            window.align(dropped, window.places.shape[1] - most)

    def reorder(self, index: Tensor) -> None:
        """Sequence i becomes what sequence ``index[i]`` was."""
        for stream in self._tensors:
            stream.select(index)
        self._source = {name: stream.index_select(0, index.to(stream.device)) for name, stream in self._source.items()}

    def repeat(self, repeats: int) -> None:
        """Every sequence ``repeats`` times, copies side by side."""
        for stream in self._tensors:
            stream.repeat(repeats)
        self._source = {name: stream.repeat_interleave(repeats, 0) for name, stream in self._source.items()}

    @property
    def _tensors(self) -> list[GrowingTensor]:
        return [*self._streams.values(), *self._windows.values()]
