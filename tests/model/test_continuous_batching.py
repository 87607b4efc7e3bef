"""Continuous batching changes nothing that belongs to the user, and says what it does not take."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from tests.helpers.batched import batching, greedy, prompts


def eager_model() -> Any:
    """A backbone of the user's in training, with one part in evaluation, whose attention must be switched."""
    config = GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=64, attn_implementation="eager")
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).train()
    model.transformer.h[0].eval()
    return model


def state_of(backbone: Any) -> dict[str, Any]:
    return {
        "config": backbone.config.to_dict() | {"attention": backbone.config._attn_implementation},
        "generation": backbone.generation_config.to_dict(),
        "training": [module.training for module in backbone.modules()],
        "attributes": [sorted(vars(module)) for module in backbone.modules()],
    }


def test_nothing_of_the_users_is_changed() -> None:
    backbone = eager_model()
    model = nw.attach(backbone, "cache")
    model(torch.tensor([[3, 4]]))  # the hook on the output layer, which does nothing outside our calls
    before, ours = state_of(backbone), model.config.to_dict() | {"generation": model.generation_config.to_dict()}
    settings, batches = greedy(eos_token_id=None), batching()
    given = copy.deepcopy((settings.to_dict(), vars(batches)))
    results = model.generate_batch(prompts(), settings, batches)
    assert all(len(result.generated_tokens) == settings.max_new_tokens for result in results.values())
    assert state_of(backbone) == before
    assert model.config.to_dict() | {"generation": model.generation_config.to_dict()} == ours
    assert (settings.to_dict(), vars(batches)) == given
    assert model.config._attn_implementation == "eager"


def test_modes_come_back_with_the_managers_stop() -> None:
    backbone = eager_model()
    before = state_of(backbone)["training"]
    manager = nw.attach(backbone, "softmax").init_continuous_batching(greedy(), batching())
    assert not backbone.transformer.h[1].training
    manager.start()
    manager.stop()
    assert state_of(backbone)["training"] == before


@pytest.mark.few(1)
@pytest.mark.parametrize("prompt", [[], [3, 40], [-1]])
def test_a_prompt_that_would_end_the_others(prompt: list[int]) -> None:
    model = nw.attach(eager_model(), "cache")
    with pytest.raises(ValueError, match=r"empty prompt|outside the vocabulary of 40 tokens"):
        model.generate_batch([[3, 4], prompt], greedy(), batching())
    with model.continuous_batching_context_manager(greedy(), continuous_batching_config=batching()) as manager:
        with pytest.raises(ValueError, match=r"empty prompt|outside the vocabulary of 40 tokens"):
            manager.add_request(prompt)
        manager.add_request([3, 4], "good")
        assert manager.get_result(timeout=60).error is None


def test_an_argument_that_transformers_would_leave_unread() -> None:
    with pytest.raises(ValueError, match=r"generate_batch:.*generation_config"):
        nw.attach(eager_model(), "cache").generate_batch([[3, 4]], greedy(), batching(), temperature=0.5)
