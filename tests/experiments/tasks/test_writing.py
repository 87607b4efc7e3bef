from __future__ import annotations

import numpy as np
import pytest

from nextword.experiments.tasks.writing import WINS, ContinuationConfig, PromptedDecoding, block_prompts
from nextword.inference.generation.strategies import Decoding
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


def test_the_kind_of_prompt_is_told_by_the_title():
    alone, prompted = PromptedDecoding(Decoding(top_k=3)), PromptedDecoding(Decoding(top_k=3), ", with prompt")
    assert (alone.title, prompted.title) == ("top-k 3", "top-k 3, with prompt")
    assert (alone.is_sampled, PromptedDecoding(Decoding(beams=2)).is_sampled) == (True, False)


def test_prompts_are_blocks_of_the_beginning():
    ids, text_bytes = list(range(47)), np.arange(47)
    config = ContinuationConfig(prompts=9, prefix=4, continuation=6)
    found = block_prompts(ids, text_bytes, config)
    assert [prompt.context + prompt.target for prompt in found] == [ids[i : i + 10] for i in (0, 10, 20, 30)]
    assert [len(prompt.context) for prompt in found] == [4] * 4
    assert found[1].target_bytes == sum(range(14, 20))
    assert len(block_prompts(ids, text_bytes, ContinuationConfig(prompts=2, prefix=4, continuation=6))) == 2
    with pytest.raises(ValueError, match="continuation"):
        block_prompts(ids, text_bytes, ContinuationConfig(prompts=1, prefix=4, continuation=44))
