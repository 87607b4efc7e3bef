"""A backbone with experts adds to its loss what keeps them evenly used; a head leaves that in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf

import nextword as nw
from tests.helpers.families import PAD, VOCABULARY

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
COEFFICIENT = 0.5
"""So large that a loss without the term is another one."""


def mixtral() -> Any:
    sizes = {"intermediate_size": 48, "num_key_value_heads": 2, "num_local_experts": 4}
    return hf.MixtralForCausalLM(hf.MixtralConfig(**SIZES, **sizes, router_aux_loss_coef=COEFFICIENT))


def jetmoe() -> Any:
    sizes = {"intermediate_size": 48, "num_key_value_heads": 2, "kv_channels": 8, "num_local_experts": 4}
    return hf.JetMoeForCausalLM(hf.JetMoeConfig(**SIZES, **sizes, aux_loss_coef=COEFFICIENT))


def switch_transformers() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_heads": 4, "num_layers": 2, "num_experts": 4}
    sparse = {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "decoder_start_token_id": PAD}
    coefficients = {"router_aux_loss_coef": COEFFICIENT, "router_z_loss_coef": COEFFICIENT, "dropout_rate": 0.0}
    config = hf.SwitchTransformersConfig(vocab_size=VOCABULARY, **sizes, **sparse, **coefficients)
    return hf.SwitchTransformersForConditionalGeneration(config)


def gradients(model: Any, **arguments: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    ids = torch.randint(3, VOCABULARY, (2, 7), generator=torch.Generator().manual_seed(1))
    model.zero_grad(set_to_none=True)
    loss = model(input_ids=ids, labels=ids, **arguments).loss
    loss.backward()
    named = {name.removeprefix("backbone."): one.grad for name, one in model.named_parameters()}
    return loss.detach(), {name: grad for name, grad in named.items() if grad is not None and "next_word" not in name}


@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (mixtral, "argument"),
        (mixtral, "configuration"),
        (jetmoe, "configuration"),
        (switch_transformers, "argument"),  # its configuration has no such field
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_the_loss_of_the_routers_is_that_of_the_bare_model(make: Any, asked: str) -> None:
    torch.manual_seed(0)
    backbone = make().eval()
    model = nw.attach(backbone, "softmax")
    without, _ = gradients(model)
    assert "router_loss" not in model.loss_parts
    arguments = {"output_router_logits": True} if asked == "argument" else {}
    if asked == "configuration":
        backbone.config.output_router_logits = True
    loss, grads = gradients(backbone, **arguments)
    own_loss, own_grads = gradients(model, **arguments)
    torch.testing.assert_close(own_loss, loss)
    torch.testing.assert_close(own_loss - without, model.loss_parts["router_loss"], rtol=1e-4, atol=1e-5)
    assert model.loss_parts["router_loss"] > 0.1
    assert own_grads.keys() == grads.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(own_grads[name], grad, rtol=1e-4, atol=1e-6, msg=name)


def test_nothing_is_added_where_no_labels_are_given() -> None:
    model = nw.attach(mixtral().eval(), "softmax")
    out = model(torch.full((1, 4), 5), output_router_logits=True)
    assert out.loss is None
    assert out.aux_loss is not None
