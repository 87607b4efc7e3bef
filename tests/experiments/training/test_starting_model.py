"""A training begins with what the saved configuration says of the model."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig, BartConfig, T5Config, T5ForConditionalGeneration

import nextword as nw
from nextword.experiments.training.starting_model import text_configuration

SIZES = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 20}


def test_our_model_with_an_encoder_says_what_its_targets_begin_with(tmp_path: Any) -> None:
    nw.attach(T5ForConditionalGeneration(T5Config(**SIZES, decoder_start_token_id=3)), "pg").save_pretrained(tmp_path)
    assert text_configuration(AutoConfig.from_pretrained(tmp_path)).decoder_start_token_id == 3


@pytest.mark.parametrize("config", [T5Config(**SIZES, decoder_start_token_id=3), BartConfig(decoder_start_token_id=3)])
def test_model_of_transformers_says_it_too(config: Any) -> None:
    assert text_configuration(config).decoder_start_token_id == 3
