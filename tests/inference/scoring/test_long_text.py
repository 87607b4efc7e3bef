from __future__ import annotations

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.inference.scoring.long_text import TokenStream, stream_likelihood, window_log_probs, windows
from nextword.model.training_modes import inference_mode_of

TEXT = "옛날 옛적에 a king 살았다, and his 말 was 뷁. " * 9


@pytest.fixture(scope="module")
def stream() -> TokenStream:
    return TokenStream.of(trained_tokenizer(TEXT, 300, None), TEXT)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=300, n_positions=16, n_embd=16, n_layer=1, n_head=2, initializer_range=1.0)
    return nw.attach(GPT2LMHeadModel(config).eval(), "cache")


def test_a_stream_begins_with_a_start_token_and_knows_its_bytes(stream: TokenStream) -> None:
    tokenizer = trained_tokenizer(TEXT, 300, None)
    assert stream.ids.tolist() == [tokenizer.bos_token_id, *tokenizer(TEXT)["input_ids"]]
    assert len(stream) == len(stream.text_bytes) + 1
    assert stream.text_bytes.sum() == len(TEXT.encode())
    assert len(TokenStream.of(tokenizer, TEXT, limit=5)) == 6


@pytest.mark.few(1)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_each_token_is_scored_in_its_window(model, stream: TokenStream, batch_size: int) -> None:
    seen = windows(len(stream), size=12, stride=5)
    with inference_mode_of(model):
        found = list(window_log_probs(model, stream.ids, seen, batch_size))
        for window, log_probs in zip(seen, found, strict=True):
            row = stream.ids[window.begin : window.begin + window.size]
            alone = model.distribution(row[None]).log_probs()[-window.scored :]
            expected = alone.gather(1, stream.ids[list(window.targets)][:, None])[:, 0]
            # float32, of one row here and of several there
            torch.testing.assert_close(log_probs.float(), expected, rtol=0, atol=1e-5)
    assert sum(map(len, found)) == len(stream) - 1


def test_the_sum_has_all_tokens_and_bytes(model, stream: TokenStream) -> None:
    shares: list[float] = []
    seen = windows(len(stream), size=12, stride=5)
    with inference_mode_of(model):
        total = stream_likelihood(model, stream, seen, 2, shares.append)
        rows = list(window_log_probs(model, stream.ids, seen, 2))
    assert (total.tokens, total.bytes, total.texts) == (len(stream) - 1, len(TEXT.encode()), len(seen))
    assert total.nll() == pytest.approx(-math.fsum(float(row.sum()) for row in rows) / total.tokens)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
