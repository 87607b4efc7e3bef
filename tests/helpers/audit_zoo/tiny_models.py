"""Right models of transformers, tiny and random; and what a planted mistake in one is made of."""

from __future__ import annotations

from typing import Any

from tests.helpers.audit_zoo.planting import right
from tests.helpers.families import tiny


@right
def gpt2() -> Any:
    """A decoder with learned positions."""
    return tiny("gpt2")


@right
def llama() -> Any:
    """A decoder with rotary positions."""
    return tiny("llama")


@right
def t5() -> Any:
    """An encoder-decoder."""
    return tiny("t5")


def changed(model: Any, mixin: type) -> Any:
    """The same model, whose class has another one before it."""
    model.__class__ = type(type(model).__name__, (mixin, type(model)), {})
    return model
