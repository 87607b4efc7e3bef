from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import nextword as nw


class Bytes:
    """Eight bits a byte."""

    def __call__(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Uniform."""
        return torch.full((len(prefixes), 256), 1 / 256).log()

    def bits_and_bytes(self, texts: Sequence[str]) -> list[tuple[float, int]]:
        """As it should be."""
        return [(8.0 * len(text.encode()), len(text.encode())) for text in texts]


class Stripped(Bytes):
    """White space at the ends is free."""

    def bits_and_bytes(self, texts: Sequence[str]) -> list[tuple[float, int]]:
        """Bits of the stripped, bytes of the whole."""
        return [(8.0 * len(text.strip().encode()), len(text.encode())) for text in texts]


def test_bytes_that_are_free_are_found() -> None:
    assert nw.check(Bytes(), vocabulary=256, lengths=[3]).passed
    (found,) = nw.check(Stripped(), vocabulary=256, lengths=[3]).findings
    assert found.fault == "bytes"
    assert "their difference is not scored" in found.sentence
