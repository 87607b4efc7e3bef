"""How much memory of the cache is left to keys and values beside what a head keeps."""

from __future__ import annotations

import pytest

from nextword.model.continuous_batching import bytes_per_slot, share_of_the_cache
from tests.helpers.batched import batching, greedy, single

ID_AND_VALIDITY = 8 + 1
STATE = 16 * 4


@pytest.mark.parametrize(
    ("head", "size"),
    [("softmax", 0), ("cache", ID_AND_VALIDITY + STATE), ("softmax+mi", ID_AND_VALIDITY + 3 * STATE)],
)
def test_bytes_of_a_place(head: str, size: int) -> None:
    """GPT-2 of width 16: an id, its validity, and a state of the cache or three layers for a window."""
    assert bytes_per_slot(single("gpt2", head)) == size


def test_the_cache_leaves_room() -> None:
    """Three layers with a key and a value of 16 numbers each; what the head keeps is read once more in a pass."""
    keys_and_values, kept = 3 * 2 * STATE, ID_AND_VALIDITY + STATE
    model = single("gpt2", "cache")
    assert share_of_the_cache(model) == pytest.approx(keys_and_values / (keys_and_values + 2 * kept))
    percents = [
        single("gpt2", head)
        .init_continuous_batching(greedy(), batching())
        .continuous_batching_config.max_memory_percent
        for head in ("cache", "softmax")
    ]
    assert percents[0] / percents[1] == pytest.approx(share_of_the_cache(model))
