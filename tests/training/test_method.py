from __future__ import annotations

import pytest
from pydantic import ValidationError

from nextword.training.method import Method


@pytest.mark.parametrize(
    ("text", "head", "objective"),
    [
        ("softmax", "softmax", "mle"),
        ("cache/mle:labels", "cache", "mle:labels"),
        ("mos:3 / histalign", "mos:3", "histalign"),
    ],
)
def test_short_form(text, head, objective):
    method = Method.model_validate(text)
    assert (method.head, method.objective) == (head, objective)


def test_methods_with_the_same_training_share_its_folder():
    late = Method(head="cache", trained_as="softmax", label="cache (test time only)")
    assert late.trained_slug == Method(head="softmax").trained_slug
    assert late.slug != Method(head="softmax").slug
    assert Method(head="cache").trained_slug != Method(head="cache", objective="mle:labels").trained_slug


def test_an_empty_head_is_refused():
    with pytest.raises(ValidationError):
        Method.model_validate("")
