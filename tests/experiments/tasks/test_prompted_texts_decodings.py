from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import nextword as nw
from nextword.experiments.tasks.prompted_texts import PromptedTexts, as_decoding_says
from nextword.experiments.tasks.tokenizers import word_tokenizer
from nextword.experiments.tasks.writing import PromptedDecoding, SeededDecoding, Texts
from nextword.inference.generation.generator import Generator
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.likelihood import TokenPair
from nextword.inference.scoring.opened_model import batches

END = 11
PAIRS = [TokenPair([3, 4], [], 0), TokenPair([8], [], 0), TokenPair([3, 5, 7], [], 0)]


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=12, n_positions=32, n_embd=16, n_layer=1, n_head=2, initializer_range=1.0, eos_token_id=END,
        bos_token_id=END,
    )  # fmt: skip
    return nw.attach(GPT2LMHeadModel(config).eval(), "cache").eval()


@pytest.fixture(scope="module")
def encoder_decoder():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=12, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=END, initializer_factor=5.0,
    )  # fmt: skip
    return nw.attach(T5ForConditionalGeneration(config).eval(), "pg").eval()


def write(model, batch_size, pairs, length, ends=False):
    with as_decoding_says(model, Decoding(), length, ends=ends):
        return [text for part in batches(pairs, batch_size) for text in Generator(model).write(part)]


def greedy(model, pair: TokenPair, length: int, ends: bool) -> list[int]:
    """Token by token, without a cache and in a row of its own."""
    found: list[int] = []
    while len(found) < length:
        if model.config.is_encoder_decoder:
            row = {"input_ids": torch.tensor([pair.context]), "decoder_input_ids": torch.tensor([[0, *found]])}
        else:
            row = {"input_ids": torch.tensor([[*pair.context, *found]])}
        token = int(model.distribution(**row).log_probs()[-1].argmax())
        if ends and token == END:
            break
        found.append(token)
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_greedy_by_hand(kind, ends, batch_size, request):
    model = request.getfixturevalue(kind)
    texts = write(model, batch_size, PAIRS, 9, ends)
    with torch.no_grad():
        assert texts == [greedy(model, pair, 9, ends) for pair in PAIRS]
    assert ends or {len(text) for text in texts} == {9}


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_the_end_token_ends_a_text_where_it_may(kind, request, monkeypatch):
    model = request.getfixturevalue(kind)
    (whole,) = write(model, 1, PAIRS[:1], 9)
    # what is written third ends a text now
    monkeypatch.setattr(model.generation_config, "eos_token_id", whole[2])
    assert write(model, 3, PAIRS, 9, ends=True)[0] == whole[: whole.index(whole[2])]
    assert write(model, 1, PAIRS[:1], 9) == [whole]


def test_texts_of_another_length_are_refused(decoder, tmp_path):
    way = PromptedDecoding(Decoding())
    writes = PromptedTexts(Texts((way,), (), None, 0), lambda words: {"": [Prompt([3, 4], [5] * 9, 9, 0)]}, 1, 1)
    files = {tmp_path / "greedy.jsonl": SeededDecoding(way, 0)}
    with pytest.raises(ValueError, match="'greedy'"):
        writes.write(decoder, word_tokenizer(["a"]), files, {"max_new_tokens": 3})
