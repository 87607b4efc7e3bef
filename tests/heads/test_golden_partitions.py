"""Heads with partitions against the numbers of the published system: values and gradients, float64."""

from __future__ import annotations

import pytest
import torch

from tests.oracles import published_heads
from tests.oracles.published import Published, partitions_of
from tests.oracles.textbook import partitions

NAMES = {
    "mi_mlp": "inputs.merge",
    "proj_S0": "project",
    "proj_C0": "partition.context",
    "proj_D0": "partition.context",
    "proj_E0": "partition.encoder",
    "proj_PD_query": "partition.local.query",
    "proj_LD_localemb": "partition.local.key",
    "proj_PE0_query": "partition.source_local.query",
    "proj_LE0_localemb": "partition.source_local.key",
    "proj_R0_step0_k5": "partition.rerankers.0",
    "proj_R0_step0_k20": "partition.rerankers.0",
    "proj_R0_step1_k5": "partition.rerankers.1",
}


def without_bias(**partition: object) -> dict[str, object]:
    return {"head": "softmax", "bias": False, "partition": partition}


CASES = {
    "gpt2_C": "softmax+c",
    "gpt2_C_Mi": "softmax+c+mi:3x3",
    "gpt2_R5": "softmax+r:5",
    "gpt2_R5_20": "softmax+r:5,20",
    "gpt2_P_add": "softmax+p",
    "gpt2_CP": "softmax+cp",
    "gpt2_CPR5_20_Mi": "softmax+cpr:5,20+mi:3x3",
    "t5_E": without_bias(encoder=True),
    "t5_D": without_bias(context=True),
    "t5_CE": without_bias(context=True, encoder=True),
    "t5_CEPR5": without_bias(context=True, encoder=True, pointer=True, rerank=[5]),
    "t5_R5_20": without_bias(rerank=[5, 20]),
}
WITH_SOURCE = ["t5_E", "t5_CE", "t5_CEPR5"]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    """With padding of the source taken for words, as published."""
    published = Published(name)
    head, used = published_heads.load(CASES[name], published, NAMES)
    assert set(used.values()) == set(head.parameters()), "a parameter of ours was left at its start"
    log_probs = published_heads.log_probs(head, published, padding_counts=True)
    torch.testing.assert_close(log_probs, published.log_probs, rtol=0, atol=1e-6)
    loss = published.loss(log_probs)
    torch.testing.assert_close(loss, published.data["loss_f64"], rtol=0, atol=1e-6)
    for leaf, gradient in published_heads.gradients(loss, published, used).items():
        torch.testing.assert_close(gradient, published.gradient(leaf), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_padding_of_the_source_is_no_word(name: str) -> None:
    """Where we differ: the row without padding is as published, the other as the textbook form without padding."""
    published = Published(name)
    head, used = published_heads.load(CASES[name], published, NAMES)
    log_probs = published_heads.log_probs(head, published, padding_counts=False)
    torch.testing.assert_close(log_probs[0], published.log_probs[0], rtol=0, atol=1e-6)
    assert (log_probs[1] - published.log_probs[1]).abs().max() > 1e-2

    parts, source = partitions_of(published), published.source(padding_counts=False)
    expected = partitions.log_partitioned(parts, published.text(), published.weight, source)
    torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-10)
    wanted = torch.autograd.grad(published.loss(expected), list(published.leaves.values()), materialize_grads=True)
    found = published_heads.gradients(published.loss(log_probs), published, used)
    for leaf, gradient in zip(published.leaves, wanted, strict=True):
        torch.testing.assert_close(found.get(leaf, torch.zeros_like(gradient)), gradient, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["gpt2_P_add", "gpt2_CPR5_20_Mi", "t5_CEPR5"])
def test_no_token_is_special(name: str) -> None:
    """The published code never touches the token 100; here it may change places with a word of the text."""
    published = Published(name)
    head, _ = published_heads.load(CASES[name], published, NAMES)
    expected = published_heads.log_probs(head, published, padding_counts=True)
    word = int(published.ids[0, 1])
    swap = torch.arange(120)
    swap[word], swap[100] = 100, word
    published.ids = swap[published.ids]
    if published.is_t5:
        published.data["encoder_ids"] = swap[published.data["encoder_ids"]]
    published.weight = published.weight[swap]
    swapped = published_heads.log_probs(head, published, padding_counts=True)
    torch.testing.assert_close(swapped, expected[..., swap], rtol=0, atol=1e-10)
