from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import nextword as nw
from nextword.inference.scoring.likelihood import (
    TokenPair,
    distribution_at_targets,
    likelihood_sum,
    target_log_probs,
)
from nextword.model.training_modes import inference_mode_of

PAIRS = [TokenPair([3, 4], [5, 6, 7], 4), TokenPair([8], [9], 1), TokenPair([3, 5, 7], [2, 4], 2)]


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=12, n_positions=16, n_embd=16, n_layer=1, n_head=2, initializer_range=1.0)
    return nw.attach(GPT2LMHeadModel(config).eval().double(), "cache")


@pytest.fixture(scope="module")
def encoder_decoder():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=12, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0,
        initializer_factor=5.0,
    )  # fmt: skip
    return nw.attach(T5ForConditionalGeneration(config).eval().double(), "pg")


def by_hand(model, pair: TokenPair) -> list[float]:
    """Token by token, each in a row of its own."""
    found = []
    for place, token in enumerate(pair.target):
        if model.config.is_encoder_decoder:
            row = {"decoder_input_ids": torch.tensor([[0, *pair.target[:place]]])}
            dist = model.distribution(torch.tensor([pair.context]), **row)
        else:
            dist = model.distribution(torch.tensor([[*pair.context, *pair.target[:place]]]))
        found.append(float(dist.log_probs()[-1, token]))
    return found


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_each_target_token_after_all_right_ones(kind: str, batch_size: int, request: pytest.FixtureRequest) -> None:
    model, shares = request.getfixturevalue(kind), []
    with inference_mode_of(model):
        found = target_log_probs(model, PAIRS, batch_size, progress=shares.append)
        for pair, log_probs in zip(PAIRS, found, strict=True):
            assert log_probs.dtype == torch.float64
            # of one row here and of padded batches there
            assert log_probs.tolist() == pytest.approx(by_hand(model, pair), abs=1e-10)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_the_distribution_has_a_row_for_each_target_token(kind: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(kind)
    with inference_mode_of(model):
        distribution, targets = distribution_at_targets(model, PAIRS)
    assert targets.tolist() == [5, 6, 7, 9, 2, 4]
    assert distribution.log_probs().shape == (6, 12)


def test_further_inputs_are_those_of_each_batch(decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution, told = decoder.distribution, []

    def heard(*args, word, **kwargs):
        told.append(word)
        return distribution(*args, **kwargs)

    monkeypatch.setattr(decoder, "distribution", heard)
    with inference_mode_of(decoder):
        target_log_probs(decoder, PAIRS, 2, lambda pairs: {"word": [pair.context[0] for pair in pairs]})
    assert told == [[3, 8], [3]]


def test_the_sum_has_a_block_for_each_target() -> None:
    total = likelihood_sum(PAIRS, [1.5, 2.5, 2.0])
    assert (total.nll(), total.tokens, total.bytes, total.texts) == (1.0, 6, 7, 3)
