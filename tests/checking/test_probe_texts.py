"""Which texts a model is checked on."""

from __future__ import annotations

from typing import Any

import pytest

import nextword as nw
from nextword.checking import checker
from tests.helpers.families import tiny


def test_a_large_model_is_read_in_short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nw.attach(tiny("gpt2"), "softmax")
    lengths: list[int] = []
    read = checker.ProbeWords.random_sample

    def seen(words: Any, length: int) -> Any:
        lengths.append(length)
        return read(words, length)

    monkeypatch.setattr(checker.ProbeWords, "random_sample", seen)
    monkeypatch.setattr(checker, "_LARGE", 1)
    assert nw.check(model).passed
    assert lengths == [1, 6]
