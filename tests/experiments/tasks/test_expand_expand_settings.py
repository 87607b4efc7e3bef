from __future__ import annotations

from nextword.experiments.tasks.expand import METRICS, ExpandGenerationConfig


def test_every_decoding_is_two_ways_of_writing():
    texts = ExpandGenerationConfig(decodings=["top-k:40", "greedy"]).texts()
    assert [way.title for way in texts.decodings] == [
        "top-k 40",
        "top-k 40, with prompt",
        "greedy",
        "greedy, with prompt",
    ]
    assert [way.is_sampled for way in texts.decodings] == [True, True, False, False]
    assert (texts.metrics, texts.wins, texts.examples) == (METRICS, None, 3)
    assert ExpandGenerationConfig(prompts=0).texts() is None
