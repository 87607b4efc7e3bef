from __future__ import annotations

import pytest

from nextword.inference.generation.strategies import WINS, ContinuationConfig
from nextword.settings.config import validated


def test_texts_are_off_by_default_and_settings_are_checked_early():
    assert ContinuationConfig().texts() is None
    assert ContinuationConfig(prompts=1).texts().wins == WINS
    assert [way.title for way in ContinuationConfig(prompts=1).texts().decodings] == ["greedy", "top-k 3"]
    only = {"prompts": 1, "metrics": ["distinct:1"]}
    assert validated(ContinuationConfig, only).texts().wins is None
    with pytest.raises(ValueError, match="Did you mean 'distinct'"):
        validated(ContinuationConfig, {"metrics": ["distinkt"]})


def test_what_draws_nothing_is_written_once():
    config = validated(ContinuationConfig, {"prompts": 1, "draws": [0, 42]})
    greedy, sampled = config.texts().decodings
    assert config.texts().draws_of(greedy) == (None,)
    assert config.texts().draws_of(sampled) == (0, 42)
    assert ContinuationConfig(prompts=1).texts().draws_of(sampled) == (None,)
    with pytest.raises(ValueError, match=r"draws:.*\(1, 1 given"):
        validated(ContinuationConfig, {"draws": [1, 1]})
