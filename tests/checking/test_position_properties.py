from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from nextword.checking.findings import CheckReport, CheckRow
from tests.helpers.audit_zoo.tiny_models import changed
from tests.helpers.families import tiny


def row(report: CheckReport, name: str) -> CheckRow:
    """The one of that name."""
    (found,) = (one for one in report.rows if one.name == name)
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma2"])
@pytest.mark.parametrize("head", [None, "softmax", "cache", "softmax+cpr:3+mi"])
def test_texts_packed_into_a_row_are_checked(name: str, head: str | None) -> None:
    model = tiny(name) if head is None else nw.attach(tiny(name), head)
    report = nw.check(model, lengths=[6])
    for one in ("position ids", "packed rows"):
        assert row(report, one).verdict == "passed", row(report, one)


class Leaking:
    """Attention is parted, but what is added to the embeddings goes on along the row."""

    def forward(
        self, input_ids: Tensor, position_ids: Tensor | None = None, past_key_values: Any = None, **inputs: Any
    ) -> Any:
        inputs["past_key_values"] = past_key_values
        embeds = self.transformer.wte(input_ids)  # type: ignore[attr-defined]
        if position_ids is not None and inputs.get("attention_mask") is None:
            embeds = embeds + embeds.cumsum(1) * (position_ids == 0).cumsum(1)[..., None].sub(1)
        return super().forward(inputs_embeds=embeds, position_ids=position_ids, **inputs)  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: tiny("t5"), "an encoder-decoder model has one source for a row"),
        (
            lambda: nw.attach(changed(tiny("gpt2"), Leaking), "cache"),
            "the backbone lets packed texts see each other, so the head refuses them",
        ),
    ],
)
def test_who_cannot_be_asked_says_why(model: Any, reason: str) -> None:
    found = row(nw.check(model(), lengths=[4]), "packed rows")
    assert (found.verdict, found.where) == ("not checked", reason)


class Unparted:
    """As a model with a mask of its own: places are read, and nothing is parted by them."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return super().forward(input_ids, attention_mask=mask, **inputs)  # type: ignore[misc]


class Unmasked:
    """It cannot read a row whose places begin anew without a mask."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None, **inputs: Any
    ) -> Any:
        if attention_mask is None and position_ids is not None and bool((position_ids.diff() < 0).any()):
            raise ValueError("a mask is needed")
        given = {"attention_mask": attention_mask, "position_ids": position_ids}
        return super().forward(input_ids, **given, **inputs)  # type: ignore[misc]


@pytest.mark.parametrize("mixin", [Unparted, Unmasked])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_model_that_merely_does_not_support_packing_is_no_alarm(name: str, mixin: type) -> None:
    report = nw.check(changed(tiny(name), mixin), lengths=[6])
    found = row(report, "packed rows")
    assert found.verdict == "not checked"
    assert "does not support packing" in found.where
    assert report.passed, str(report)


class MemoryOfTheRow:
    """Attention is parted, but a memory of the row so far is not."""

    def forward(self, input_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> Any:
        found = super().forward(input_ids, position_ids=position_ids, **inputs)  # type: ignore[misc]
        if inputs.get("attention_mask") is None:
            seen = torch.nn.functional.one_hot(input_ids, found.logits.shape[-1]).float()
            found.logits = found.logits + 0.01 * (seen.cumsum(1) - seen) * (position_ids == 0).cumsum(1)[..., None]
        return found


def test_what_leaks_between_packed_texts_is_found_on_the_smallest_row() -> None:
    report = nw.check(changed(tiny("gpt2"), MemoryOfTheRow), lengths=[6])
    (found,) = report.findings
    assert found.fault == "packed-row"
    assert len(found.texts) <= 2
    assert max(len(text) for text in found.texts) <= 2
