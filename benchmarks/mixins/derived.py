"""A test class of transformers, with one of our models in place of theirs."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import Any

from transformers.models.auto import modeling_auto

from mixins.backbones import BACKBONES, DECODER, WITH_ENCODER, WRAPPED, ModelTester, model_class

TABLES = {
    DECODER: modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    WITH_ENCODER: modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
}
"""By the names in these tables the tests tell what a class is for: which labels it takes, which loss it has."""


def name_of(backbone: str, head: str) -> str:
    """The name of a test class, by which pytest finds it."""
    return f"{backbone} {head}"


def head_of(name: str) -> tuple[str, str]:
    """Backbone and head of a test class."""
    backbone, _, head = name.partition(" ")
    return backbone, head


def derived_class(backbone: str, head: str, mixins: Mapping[str, Any]) -> Any:
    """A test class of a model with a head, or of the bare model.

    Args:
        backbone: One of ``BACKBONES``.
        head: A head spec, or ``bare``.
        mixins: transformers' mixins by name.
    """

    def set_up(self: Any) -> None:
        self.model_tester = ModelTester(backbone, head)

    fields = {
        "setUp": set_up,
        "all_model_classes": (model_class(backbone, head),),
        # transformers asks this of newer models only, which it tells by the year in a file
        "test_can_init_all_missing_weights_before_2023": True,
        "is_encoder_decoder": BACKBONES[backbone] == WITH_ENCODER,
    }
    return type(name_of(backbone, head), (*mixins.values(), unittest.TestCase), fields)


def make_known() -> None:
    """Lists our classes where the tests look up what a class is for."""
    for kind, (config, model) in WRAPPED.items():
        TABLES[kind][config.model_type] = model.__name__
