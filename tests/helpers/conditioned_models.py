"""Conditioned models whose auxiliary text decides, so that a wrong one shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

import nextword as nw

ENCODER_VOCABULARY = 30
WIDTH = 12
"""Of the encoder's states; no decoder of these tests is as wide."""

CONDITIONERS: dict[str, Any] = {
    "lmh": "lmh",
    "lmh:max": "lmh:max",
    "dau": "dau",
    "dau:max": "dau:max",
    "bergpt": "bergpt",
    "bergpt:2,tied": {"conditioner": "bergpt:2", "tied": True},
    "bergpt,layers=0+-1": {"conditioner": "bergpt", "layers": [0, -1], "heads": 1, "expansion": 2},
    "prefix:3": "prefix:3",
}
COPYING = ("softmax+ce", "pg", "ps", "copynet")
"""Heads that copy words of the auxiliary text."""


def encoder(width: int = WIDTH, seed: int = 1, **settings: Any) -> BertModel:
    """A small BERT with matrices so wide that its states tell texts apart."""
    torch.manual_seed(seed)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16}
    model = BertModel(BertConfig(vocab_size=ENCODER_VOCABULARY, hidden_size=width, **sizes | settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model.eval()


def texts(lengths: tuple[int, ...] = (7, 3), seed: int = 11) -> dict[str, Tensor]:
    """Auxiliary texts of these lengths, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, ENCODER_VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"aux_input_ids": ids * mask, "aux_attention_mask": mask}


def with_words(given: dict[str, Tensor], seed: int = 12) -> dict[str, Tensor]:
    """The same with words for the heads that copy: as many as the text has tokens but for the first and the last."""
    generator = torch.Generator().manual_seed(seed)
    mask = given["aux_attention_mask"]
    ids = torch.randint(3, 20, (len(mask), mask.shape[1] - 1), generator=generator)
    places = torch.arange(1, mask.shape[1]).expand(len(mask), -1)
    there = places < mask.sum(1, keepdim=True) - 1
    return given | {"source_ids": ids * there, "source_positions": places.masked_fill(~there, -1)}


def rows_of(given: dict[str, Tensor], rows: list[int]) -> dict[str, Tensor]:
    """Some of the texts."""
    return {name: tensor[rows] for name, tensor in given.items()}


def settings_of(conditioner: Any, **changes: Any) -> dict[str, Any]:
    """The conditioner with further settings."""
    return (conditioner if isinstance(conditioner, dict) else {"conditioner": conditioner}) | changes


@torch.no_grad()
def made_loud(module: nn.Module, seed: int = 5, spread: float = 1.5) -> None:
    """Weights so wide that what the module makes is large."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator).to(parameter)
        if parameter.ndim > 1:
            parameter.copy_(spread * parameter.shape[-1] ** -0.5 * noise)
        else:
            parameter += 0.3 * noise


def conditioned(backbone: Any, head: Any, conditioner: Any, objective: Any = "mle", **changes: Any) -> Any:
    """The backbone with head and conditioner, the latter loud."""
    model = nw.attach(backbone, head, objective, conditioner=settings_of(conditioner, **changes), encoder=encoder())
    made_loud(model.conditioner)
    return model
