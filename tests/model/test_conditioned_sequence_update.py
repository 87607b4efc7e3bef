"""Sequence updates of conditioned models: every prefix is continued under the auxiliary text of its own row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.helpers.conditioned_models import conditioned, rows_of, with_words
from tests.helpers.conditioned_models import texts as auxiliary_texts
from tests.helpers.generating_models import backbone
from tests.helpers.sequence_updates import batch, close, gradients
from tests.oracles.textbook import unlikelihood as textbook

P, S = 4, 10
SEQ = {"rate": 1.0, "prefix": P, "continuation": S, "n": 1, "prefixes": 2}
AUX = auxiliary_texts((7, 3, 5))


def model_of(conditioner: str, head: str) -> Any:
    model = conditioned(backbone("gpt2"), head, conditioner, {"objective": "mle", "seq": SEQ}, trains="all")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.next_word_head.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.train()


def texts(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(2, 40, (length,), generator=generator) for length in lengths]


def greedy(model: Any, prefix: Tensor, aux: dict[str, Tensor]) -> Tensor:
    text = prefix[None]
    for _ in range(S):
        text = torch.cat([text, model.distribution(text, **aux).log_probs()[-1:].argmax(-1, keepdim=True)], 1)
    return text[0, len(prefix) :]


@pytest.mark.slow
@pytest.mark.parametrize("states", [False, True], ids=["tokens", "states"])
@pytest.mark.parametrize(
    ("conditioner", "head"),
    [("lmh", "softmax"), ("dau", "cache"), ("bergpt", "softmax+ce"), ("bergpt", "softmax+mi:1x2"), ("prefix:3", "pg")],
)
def test_value_and_gradient(conditioner: str, head: str, states: bool) -> None:
    rows = texts(9, 4, 2)
    owners = [0, 0, 1, 2]
    prefixes = [rows[0][:P], rows[0][P : 2 * P], rows[1], rows[2]]
    expected_model, model = model_of(conditioner, head).eval(), model_of(conditioner, head)
    aux = with_words(AUX) if model.next_word_head.reads_source else AUX
    total = torch.zeros((), dtype=torch.float64)
    for prefix, owner in zip(prefixes, owners, strict=True):
        own = rows_of(aux, [owner])
        with torch.no_grad():
            written = greedy(expected_model, prefix, own)
        log_probs = expected_model.distribution(torch.cat([prefix, written])[None], **own).log_probs()
        total = total + textbook.sequence_sum(log_probs[None, len(prefix) - 1 : -1], written[None], 1)
    expected = total / (len(prefixes) * S)
    assert expected > 0
    given = dict(aux)
    if states:
        given["aux_states"] = model.eval().encode(AUX["aux_input_ids"], AUX["aux_attention_mask"])
        del given["aux_input_ids"]
        model.train()
    loss = model(**batch(rows), **given).loss
    close(loss, expected)
    close(model.loss_parts["sequence_loss"], expected.detach())
    for ours, theirs in zip(gradients(model, loss), gradients(expected_model, expected), strict=True):
        close(ours, theirs)
    turned = {name: value.roll(1, 0) for name, value in given.items()}
    assert abs(model(**batch(rows), **turned).loss - expected) > 1e-4
