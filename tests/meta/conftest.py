"""Tiny models that documents speak of."""

from __future__ import annotations

import pytest
import torch
import transformers


@pytest.fixture
def backbone() -> transformers.GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64, "vocab_size": 50}
    special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **special)).eval()


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.tensor([[3, 7, 5, 7, 9, 3, 7, 11]])


@pytest.fixture
def encoder() -> transformers.BertModel:
    torch.manual_seed(1)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    return transformers.BertModel(transformers.BertConfig(vocab_size=40, **sizes)).eval()


@pytest.fixture
def auxiliary() -> dict[str, torch.Tensor]:
    found = torch.tensor([[2, 17, 30, 5]])
    return {"aux_input_ids": found, "aux_attention_mask": torch.ones_like(found)}
