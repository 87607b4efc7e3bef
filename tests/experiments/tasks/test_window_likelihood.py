from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.experiments.tasks.window_likelihood import TokenStream, WindowConfig, WindowLikelihood
from nextword.inference.scoring.likelihood import span_log_probs, text_answers
from nextword.inference.scoring.long_text import ScoringWindow, windows_after
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
    assert len(stream.ids) == len(stream.text_bytes) + 1
    assert stream.text_bytes.sum() == len(TEXT.encode())
    assert len(TokenStream.of(tokenizer, TEXT, limit=5).ids) == 6


@pytest.mark.few(1)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_each_token_is_scored_in_its_window(model, stream: TokenStream, batch_size: int) -> None:
    seen, ids = windows_after(1, len(stream.ids), size=12, stride=5), torch.from_numpy(stream.ids)
    with inference_mode_of(model):
        (found,) = text_answers(model, [stream], ScoringWindow(12, 5), batch_size, span_log_probs)
        for window, log_probs in zip(seen, found, strict=True):
            row = ids[window.begin : window.begin + window.size]
            alone = model.distribution(row[None]).log_probs()[-window.scored :]
            expected = alone.gather(1, ids[list(window.targets)][:, None])[:, 0]
            # float32, of one row here and of several there
            torch.testing.assert_close(log_probs.float(), expected, rtol=0, atol=1e-5)
    assert sum(map(len, found)) == len(stream.target)


def test_the_sum_has_all_tokens_and_bytes_and_a_block_for_each_window(model, stream: TokenStream) -> None:
    shares: list[float] = []
    measures = WindowLikelihood(lambda *_: stream, lambda *_: stream, WindowConfig(window=12, stride=5, batch_size=2))
    tokenizer: Any = None
    with inference_mode_of(model):
        (rows,) = text_answers(model, [stream], ScoringWindow(12, 5), 2, span_log_probs)
        total = measures._likelihood(model, stream, 5, shares.append)
    assert (total.tokens, total.bytes) == (len(stream.target), len(TEXT.encode()))
    assert total.texts == len(windows_after(1, len(stream.ids), 12, 5))
    assert total.nll() == pytest.approx(-math.fsum(float(row.sum()) for row in rows) / total.tokens)
    assert measures.evaluate(model, tokenizer).metrics["nll"].value == total.nll()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
