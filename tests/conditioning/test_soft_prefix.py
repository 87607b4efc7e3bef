"""Vectors before the text (prefix): textbook form, alone and within GPT-2."""

from __future__ import annotations

import torch

from tests.helpers.conditioned_models import WIDTH, conditioned, texts
from tests.helpers.generating_models import backbone, prompt
from tests.oracles.conditioner_cases import VALID, built, check, check_padding, randn
from tests.oracles.textbook import conditioning as textbook


def test_vectors() -> None:
    conditioner, source = built("prefix:3"), randn(3, 5, WIDTH)
    weight, bias, queries = conditioner.project.weight, conditioner.project.bias, conditioner.queries
    made = conditioner.before_text(conditioner.read(source, VALID))
    expected = [textbook.prefix(*row, queries, weight, bias) for row in zip(source, VALID, strict=True)]
    check(made, torch.stack(expected), [source, weight, bias, queries])


def test_padding_says_nothing() -> None:
    check_padding("prefix:2")


def test_prefix_is_text_before_the_text() -> None:
    """The vectors as embeddings before those of the words, given to the backbone by hand."""
    model = conditioned(backbone("gpt2"), "softmax", "prefix:3")
    ids, given = prompt(), texts()
    states = model.encode(**given)
    vectors = [
        textbook.prefix(own, valid.bool(), model.conditioner.queries, *model.conditioner.project.parameters())
        for own, valid in zip(states, given["aux_attention_mask"], strict=True)
    ]
    embeddings = torch.cat([torch.stack(vectors), model.get_input_embeddings()(ids)], 1)
    expected = model.backbone(inputs_embeds=embeddings).logits[:, 3:].log_softmax(-1)
    found = model.distribution(ids, **given).log_probs().unflatten(0, ids.shape)
    check(found, expected, [*model.conditioner.parameters()])
