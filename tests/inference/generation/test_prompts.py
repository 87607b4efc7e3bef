from __future__ import annotations

import numpy as np
import pytest

from nextword.inference.generation.prompts import block_prompts
from nextword.inference.generation.strategies import ContinuationConfig


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
