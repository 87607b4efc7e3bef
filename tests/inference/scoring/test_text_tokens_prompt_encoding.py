from __future__ import annotations

import pytest
from transformers import GPT2TokenizerFast

from nextword.experiments.tasks.ambiguous_measures import encode
from nextword.experiments.tasks.ambiguous_words import prompts
from nextword.experiments.tasks.tokenizers import word_tokenizer
from nextword.inference.scoring.text_tokens import encode_answer, encode_prompt, start_id
from tests.helpers.real_data import real_data


def test_word_level() -> None:
    tokenizer = word_tokenizer(["I saw Rome."])
    prompt = encode_prompt(tokenizer, "I saw")
    assert tokenizer.convert_ids_to_tokens(prompt) == ["<eos>", "I", "saw"]
    assert tokenizer.convert_ids_to_tokens(encode_answer(tokenizer, "I saw", "Rome")) == ["Rome"]


def test_prompts_whose_words_begin_alike_are_left_out() -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = word_tokenizer(["Oslo Norway Rome Italy She"])
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    # "Bern" and "Switzerland" are both unknown, so both are <unk>.
    found = prompts([("Oslo", "Norway"), ("Rome", "Italy"), ("Bern", "Switzerland")], "places")
    kept = encode(found, tokenizer)
    assert len(kept) == 16
    assert len(found) == 48
    with pytest.raises(ValueError, match="16 prompts"):
        encode(prompts([("Bern", "Switzerland"), ("Oslo", "Norway")], "places"), tokenizer)


def test_tokenizer_without_start_token() -> None:
    tokenizer = word_tokenizer(["a"])
    tokenizer.bos_token = None
    assert start_id(tokenizer) == tokenizer.eos_token_id
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="neither a bos"):
        start_id(tokenizer)


def test_words_of_several_tokens_with_the_tokenizer_of_gpt2() -> None:
    folder = real_data("tokenizers/gpt2")
    tokenizer = GPT2TokenizerFast(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))
    answer = encode_answer(tokenizer, "She took a bus to", "Ljubljana")
    assert len(answer) > 1
    assert tokenizer.decode(answer) == " Ljubljana"
    kept = encode(prompts([("Ljubljana", "Slovenia"), ("Paris", "France")], "places"), tokenizer)
    assert len(kept) == 16
    assert {tokenizer.decode([t]) for row in kept for t in row.wanted} >= {" Paris", " France"}
