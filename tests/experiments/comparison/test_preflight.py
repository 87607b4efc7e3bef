"""Where a training begins: small models as published, pretrained ones fitted to what they know."""

from __future__ import annotations

from typing import Any

import pytest

from nextword.experiments.comparison.method import Method
from nextword.experiments.comparison.preflight import build_method
from tests.helpers.families import tiny


def begun(head: str, *, pretrained: bool, trained: bool = True) -> Any:
    method = Method(head=head, trained=trained)
    return build_method(tiny("gpt2"), method, "mle", None, None, pretrained).next_word_head.config


@pytest.mark.parametrize("trained", [True, False])
def test_a_cache_is_fitted_to_a_pretrained_model_and_learns_in_its_joint_form(trained: bool) -> None:
    config = begun("cache", pretrained=True, trained=trained)
    assert config.temperature not in (1.0, "fitted")
    assert (config.weight is None) == trained


def test_a_small_start_begins_as_published() -> None:
    assert begun("cache", pretrained=False) == begun("cache:published", pretrained=True)
    assert begun("ps", pretrained=False).gate_bias == 0.0


@pytest.mark.parametrize("pretrained", [True, False])
def test_what_is_chosen_stays(pretrained: bool) -> None:
    config = begun("cache:temperature=3,weight=0.2", pretrained=pretrained)
    assert (config.temperature, config.weight) == (3.0, 0.2)


@pytest.mark.parametrize(("head", "starts"), [("pg", 4.0), ("ps", 8.0)])
def test_gates_of_a_pretrained_model_begin_closed(head: str, starts: float) -> None:
    def bias(pretrained: bool) -> float:
        method = Method(head=head)
        model: Any = build_method(tiny("gpt2"), method, "mle", None, None, pretrained)
        return float(model.next_word_head.gate.bias)

    assert bias(True) > starts / 2 > bias(False)
