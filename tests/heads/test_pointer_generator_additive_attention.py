from __future__ import annotations

import pytest
import torch

from nextword.heads import pointer_generator as additive
from nextword.heads.pointer_generator import additive_scores

B, Q, S, D = 2, 6, 5, 3


def case() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (B, Q, D), (B, S, D), (D,)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes)


def textbook(queries: torch.Tensor, keys: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.tanh(queries[:, :, None] + keys[:, None]) @ vector


@pytest.mark.few(1)
@pytest.mark.parametrize("device", ["cuda", "cpu"], ids=["in the CPU's way", "in the card's way"])
@pytest.mark.parametrize("chunk_bytes", [1, 8 * B * S * D * 2, 2**20])
def test_value_and_gradient(chunk_bytes: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(additive._CHUNK_BYTES, "cpu", chunk_bytes)
    monkeypatch.setattr(additive, "_BY_TANH", {device})
    torch.testing.assert_close(additive_scores(*case()), textbook(*case()))
    assert torch.autograd.gradcheck(additive_scores, case())


@pytest.mark.parametrize("device", ["cuda", "cpu"], ids=["in the CPU's way", "in the card's way"])
@pytest.mark.parametrize("chunk_bytes", [1, 8 * B * S * D * 2, 2**20])
@pytest.mark.parametrize("reach", [[0, 1, 2, 3, 4, 5], [3, 0, 0, 5, 2, 1], [0] * 6])
def test_what_is_within_reach_is_there(
    reach: list[int], chunk_bytes: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(additive._CHUNK_BYTES, "cpu", chunk_bytes)
    monkeypatch.setattr(additive, "_BY_TANH", {device})
    within = torch.arange(S) < torch.tensor(reach)[:, None]
    found = additive_scores(*case(), torch.tensor(reach))
    torch.testing.assert_close(found[:, within], textbook(*case())[:, within])

    def reached(*given: torch.Tensor) -> torch.Tensor:
        return additive_scores(*given, torch.tensor(reach))[:, within]

    if within.any():
        assert torch.autograd.gradcheck(reached, case())


def test_no_key_and_no_query() -> None:
    queries, keys, vector = case()
    assert additive_scores(queries, keys[:, :0], vector).shape == (B, Q, 0)
    assert additive_scores(queries[:, :0], keys, vector).shape == (B, 0, S)
