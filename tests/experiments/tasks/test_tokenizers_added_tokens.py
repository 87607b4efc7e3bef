from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

from nextword.experiments.tasks.tokenizers import add_tokens, trained_tokenizer, with_tokens

TEXT = "the cat sat on the mat"


def test_a_mark_is_one_token_and_takes_the_space_before_it():
    tokenizer = trained_tokenizer(TEXT, 280, None)
    before = len(tokenizer)
    assert with_tokens(tokenizer, ["<cell>", "</cell>"]) is tokenizer
    ids = tokenizer("<cell> the cat </cell> <cell> sat </cell>")["input_ids"]
    marks = tokenizer.convert_tokens_to_ids(["<cell>", "</cell>"])
    assert marks == [before, before + 1]
    cat, sat = tokenizer(" the cat")["input_ids"], tokenizer(" sat")["input_ids"]
    assert ids == [marks[0], *cat, marks[1], marks[0], *sat, marks[1]]


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_new_tokens_get_embeddings_and_the_old_ones_stay(family):
    tokenizer = trained_tokenizer(TEXT, 280, None)
    size = len(tokenizer)
    if family == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=size, n_embd=8, n_layer=1, n_head=1))
    else:
        model = T5ForConditionalGeneration(
            T5Config(vocab_size=size, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
        )
    before = model.get_input_embeddings().weight.detach().clone()
    add_tokens(model, tokenizer, [])
    assert model.get_input_embeddings().weight.shape[0] == size
    add_tokens(model, tokenizer, ["<cell>", "</cell>"])
    after = model.get_input_embeddings().weight
    assert after.shape[0] == model.get_output_embeddings().weight.shape[0] == size + 2 == model.config.vocab_size
    assert torch.equal(after[:size], before)
    assert after[size:].std() > 0


def test_rows_that_a_model_has_to_spare_are_used():
    tokenizer = trained_tokenizer(TEXT, 280, None)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer) + 5, n_embd=8, n_layer=1, n_head=1))
    add_tokens(model, tokenizer, ["<cell>"])
    assert model.get_input_embeddings().weight.shape[0] == len(tokenizer) + 4
