"""With plain softmax attached, every family computes exactly what it computed before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

import nextword as nw
from tests.helpers.families import FAMILIES, inputs, prompts, tiny

GENERATION = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_far_from_uniform(family: str) -> None:
    """Else equal outputs would prove little."""
    bare = tiny(family)
    top = bare(**inputs(bare)).logits.softmax(-1).amax(-1).mean()
    assert top > 3 / bare.config.get_text_config(decoder=True).vocab_size


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_logits_are_the_backbones_bit_for_bit(family: str) -> None:
    bare = tiny(family)
    given = inputs(bare)
    expected = bare(**given).logits
    wrapped = nw.attach(tiny(family), "softmax")
    assert torch.equal(wrapped(**given).logits, expected)
    mask = torch.ones(expected.shape[:2], dtype=torch.bool)
    log_probs = wrapped.distribution(**given, positions=mask).log_probs()
    textbook = expected.flatten(0, 1).double().log_softmax(-1)
    torch.testing.assert_close(log_probs.double(), textbook, rtol=1e-6, atol=1e-6)


@pytest.mark.few(6)
@pytest.mark.parametrize("method", GENERATION)
@pytest.mark.parametrize("family", FAMILIES)
def test_generations_are_the_backbones_token_for_token(family: str, method: str) -> None:
    bare = tiny(family)
    given = prompts(bare)

    def generated(model: Any) -> Tensor:
        torch.manual_seed(7)
        return model.generate(**given, max_new_tokens=10, **GENERATION[method])

    expected = generated(bare)
    assert torch.equal(generated(nw.attach(tiny(family), "softmax")), expected)
    assert expected.unique().numel() > 3  # not one token over and over


class GPT2WithAWave(GPT2LMHeadModel):
    """Does something to its scores that no configuration speaks of."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().forward(*args, **kwargs)
        outputs.logits = outputs.logits + torch.sin(outputs.logits)
        return outputs


class GPT2Louder(GPT2LMHeadModel):
    """Scales its scores by a number that stands nowhere."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().forward(*args, **kwargs)
        outputs.logits = outputs.logits * 1.01
        return outputs


class GPT2WithShortVocabulary(GPT2LMHeadModel):
    """Returns fewer scores than its output layer makes."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().forward(*args, **kwargs)
        outputs.logits = outputs.logits[..., :-1]
        return outputs


@pytest.mark.parametrize("kind", [GPT2WithAWave, GPT2Louder, GPT2WithShortVocabulary])
@pytest.mark.parametrize("head", ["softmax", "cache"])
def test_unknown_treatment_of_the_scores_is_refused(kind: type[GPT2LMHeadModel], head: str) -> None:
    model = kind(tiny("gpt2").config).eval()
    with pytest.raises(ValueError, match=rf"{kind.__name__}: its logits are not its output layer .* refused"):
        nw.attach(model, head)
    assert nw.attach(tiny("gpt2"), head)  # the same without the treatment is taken


@pytest.mark.parametrize("family", ["gemma2", "cohere", "granite", "bart", "marian"])
@torch.no_grad()
def test_known_treatments_do_something_here(family: str) -> None:
    """Else these families would prove no more than GPT-2 does."""
    bare = tiny(family)
    product: list[Tensor] = []
    bare.get_output_embeddings().register_forward_hook(lambda module, args, output: product.append(output.clone()))
    logits = bare(**inputs(bare)).logits
    assert (logits - product[0]).abs().max() > 0.5


@torch.no_grad()
def test_tied_t5_scales_the_states_its_output_layer_reads() -> None:
    assert nw.attach(tiny("t5"), "softmax").config.state_scale == pytest.approx(32**-0.5)
    assert nw.attach(tiny("t5_v1_1"), "softmax").config.state_scale == 1.0
