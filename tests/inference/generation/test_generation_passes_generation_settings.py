from __future__ import annotations

import pytest

from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.settings.config import SettingsError, validated


def test_short_forms_are_read():
    found = validated(GenerationSettings, {"decodings": ["greedy", "top-p:0.9"], "seeds": [3, 4]})
    assert [one.title for one in found.decodings] == ["greedy", "top-p 0.9"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decodings": ["top-k:3", "top-k:3"]}, "decodings: 'top-k 3' is given twice"),
        ({"seeds": [1, 1]}, "seeds: '1' is given twice"),
        ({"stop": [""]}, "stop: must be a text"),
        (
            {"stop": ["a", "bad \ud83d"]},
            r"stop.1: must be text of whole characters (half of one, \ud83d, given); correct it or leave it out",
        ),
        ({"arguments": {"\ude00": 1}}, r"arguments: must be text of whole characters (half of one, \ude00, given)"),
        ({"arguments": {"max_length": 5}}, "arguments: 'max_length' has a setting of its own; give max_new_tokens"),
        ({"arguments": {"num_return_sequences": 5}}, "give samples"),
        ({"samples": 0}, "samples: must be at least 1"),
        ({"decodings": ["top-q:3"]}, "'top-q:3' is not a decoding. Did you mean 'top-p'"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(SettingsError) as refused:
        validated(GenerationSettings, settings)
    assert message in str(refused.value)
