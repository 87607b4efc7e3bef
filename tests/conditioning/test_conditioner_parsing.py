"""Specs of conditioners, and the papers' own forms among them."""

from __future__ import annotations

from typing import Any

import pytest

from nextword.conditioning import conditioner_spec, parse_conditioner

PUBLISHED = {"start": "random", "trains": "new"}


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ("dau:published", PUBLISHED | {"pooling": "mean"}),
        ("lmh:max,published", PUBLISHED | {"pooling": "max"}),
        ("bergpt:published", PUBLISHED | {"last": 1, "tied": False}),
        ("bergpt:2,published", PUBLISHED | {"last": 2}),
        ("bergpt", {"start": "unchanged", "trains": "downstream"}),
    ],
)
def test_specs_come_back(spec: str, settings: dict[str, Any]) -> None:
    config = parse_conditioner(spec)
    assert settings.items() <= config.model_dump().items()
    assert conditioner_spec(config) == spec
    assert parse_conditioner(config.model_dump()) == config


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("prefix:published", "conditioner spec 'prefix:published': .*this has no other; leave it out"),
        ({"conditioner": "bergpt:published", "trains": "all"}, "conditioner.trains: given as 'new' by"),
        ({"conditioner": "bergpt:published", "tied": True}, "conditioner.tied: given as False by"),
        ("lmh:publish", "must be followed by mean or max .'publish' given"),
    ],
)
def test_published_forms_that_there_are_not(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_conditioner(spec)
