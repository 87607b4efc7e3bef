"""Multiple input states: published numbers and textbook form of a softmax that reads them, size."""

from __future__ import annotations

import pytest
import torch

from nextword.heads import Dimensions, MultiInputConfig, head_spec, parse_head
from nextword.heads.input_states import InputBlock
from tests.oracles import head_forms, poster
from tests.oracles.published_heads import PublishedHead
from tests.oracles.textbook_cases import CHECKS, Comparisons, D, V, rank

SPECS = ("softmax+mi", "softmax+mi:2x4", "softmax+mi:2x4,norm")
compared = Comparisons(head_forms.log_softmax, {spec: spec for spec in SPECS})


def test_published_numbers() -> None:
    names = {"proj_S0": "project", "mi_mlp": "inputs.merge"}
    PublishedHead("gpt2_S_Mi", "softmax+mi:3x3", names).check_values_and_gradients()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("model", "name"), compared.every)
def test_textbook_form(model: str, name: str, check: str) -> None:
    CHECKS[check](compared(model, name))


def test_untrained_block_changes_nothing() -> None:
    compared.check_untrained("softmax+mi")


def test_a_pretrained_model_is_trained_with_normalised_states() -> None:
    for spec, pretrained in [
        ("softmax+mi:3x3", True),
        ("pg+mi:raw", False),
        ("pg:published+mi", True),
        ("mos:3+mi:norm", True),
    ]:
        begun = parse_head(spec).to_fine_tune()
        assert begun.mi.normalize is pretrained
        assert parse_head(spec).is_met_by(begun)
        assert head_spec(begun).endswith("raw" if not pretrained else "norm")
    assert parse_head("softmax+mi").as_published().mi.normalize is None
    assert not parse_head("softmax+mi:raw").is_met_by(parse_head("softmax+mi:norm"))


@pytest.mark.parametrize(
    ("asked", "kept"),
    [("+mi", ["+mi", "+mi:raw", "+mi:norm"]), ("+mi:raw", ["+mi", "+mi:raw"]), ("+mi:norm", ["+mi:norm"])],
)
def test_a_trained_head_that_reads_the_same_states_is_kept(asked: str, kept: list[str]) -> None:
    trained = {spec: parse_head(f"softmax{spec}") for spec in ("+mi", "+mi:raw", "+mi:norm")}
    assert [spec for spec, head in trained.items() if parse_head(f"softmax{asked}").is_met_by(head)] == kept


def test_large_norms_of_lower_layers_are_removed() -> None:
    block = InputBlock(MultiInputConfig(layers=2, window=1, normalize=True), Dimensions(D, D, 2, V))
    last, lower = torch.randn(2, 1, 5, D)
    valid = torch.ones(1, 5, dtype=torch.bool)
    larger = lower * torch.tensor([1e4, 1, 300, 1, 0.1])[:, None]
    torch.testing.assert_close(block(last, (last, larger), valid, None), block(last, (last, lower), valid, None))
    raw = InputBlock(MultiInputConfig(layers=2, window=1), Dimensions(D, D, 2, V))
    raw.load_state_dict(block.state_dict())
    assert raw(last, (last, larger), valid, None).abs().max() > 100


@torch.no_grad()
def test_rank_is_that_of_softmax() -> None:
    assert rank("softmax+mi") == D + 1


@pytest.mark.parametrize(("spec", "millions"), [("softmax+mi", 130.9)])
def test_size_is_that_of_the_poster(spec: str, millions: float) -> None:
    assert abs(poster.millions(spec) - millions) < poster.ROUNDING
