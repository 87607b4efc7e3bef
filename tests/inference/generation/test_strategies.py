from __future__ import annotations

import pytest

from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.generation.strategies import Decoding
from nextword.settings.config import validated


@pytest.mark.parametrize(
    ("spec", "title", "arguments"),
    [
        ("greedy", "greedy", {"do_sample": False, "num_beams": 1}),
        ("beam:4", "beam 4", {"do_sample": False, "num_beams": 4}),
        ("Top-K:3", "top-k 3", {"do_sample": True, "top_k": 3, "top_p": 1.0, "temperature": 1.0}),
        ("top-p:0.9", "top-p 0.9", {"do_sample": True, "top_k": 0, "top_p": 0.9}),
        ("sample", "sample", {"do_sample": True, "top_k": 0, "top_p": 1.0}),
        ("top-k:5,0.7", "top-k 5, temperature 0.7", {"top_k": 5, "temperature": 0.7}),
        ({"top_k": 5, "top_p": 0.9}, "top-k 5, top-p 0.9", {"top_k": 5, "top_p": 0.9}),
        ({}, "greedy", {"do_sample": False}),
    ],
)
def test_specs_and_settings(spec, title, arguments):
    decoding = Decoding.model_validate(spec)
    assert decoding.title == title
    assert decoding.arguments().items() >= arguments.items()
    assert decoding.is_sampled == decoding.arguments()["do_sample"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("topk:3", "'topk:3' is not a decoding. Did you mean 'top-k'"),
        ("top-k", r"'top-k' is not valid for top-k:K\[,TEMPERATURE\]"),
        ("top-k:many", "is not valid for top-k:K"),
        ("top-k:0", "at least 1"),
        ("top-p:1.5", "at most 1"),
        ("greedy:2", "'greedy:2' is not valid for greedy"),
        ({"temperature": 0.7}, "temperature: has no effect without sampling"),
        ({"beams": 4, "top_k": 3}, "beams: must be given without sample"),
        ({"topk": 4}, r"decodings\.0\.topk: unknown key. Did you mean 'top_k'"),
    ],
)
def test_wrong_decodings_are_named(spec, message):
    with pytest.raises(ValueError, match=message):
        validated(GenerationSettings, {"decodings": [spec]}, "task.generation")


def test_a_decoding_stands_once():
    with pytest.raises(ValueError, match="'top-k 3' is given twice"):
        validated(GenerationSettings, {"decodings": ["top-k:3", {"top_k": 3}]})
