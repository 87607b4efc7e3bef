"""Stand-ins for an attached model, in which every probability is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from transformers import GenerationConfig


class FakeDistribution:
    def __init__(self, log_probs: Tensor) -> None:
        self._log_probs = log_probs

    def log_probs(self) -> Tensor:
        return self._log_probs

    def log_prob(self, ids: Tensor) -> Tensor:
        return self._log_probs.gather(1, ids)

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        values, ids = self._log_probs.topk(min(k, self._log_probs.shape[1]))
        return values, ids

    def sources(self, ids: Tensor) -> dict[str, Tensor]:
        p = self.log_prob(ids).exp()
        return {"softmax": 0.25 * p, "cache": 0.75 * p}


class NoSettings(BaseModel):
    """Config of a head with nothing to tune."""


class FakeModel(nn.Module):
    """``scores(ids (B, T), mode)`` gives unnormalised log-probabilities (B, T, V)."""

    def __init__(self, scores: Callable[[Tensor, str], Tensor], modes: tuple[str, ...] = ("joint",)) -> None:
        super().__init__()
        self.scores = scores
        self.next_word_head = SimpleNamespace(
            modes=modes,
            config=NoSettings(),
            looks_back=None,
            expect_tokenizer=lambda fingerprint_of: None,
            calibration=lambda: None,
            generate_takes=(),
        )
        self.conditioner = None
        self.config = SimpleNamespace(is_encoder_decoder=False)
        self.generation_config = GenerationConfig()
        self.device = torch.device("cpu")
        self.seen: list[Tensor] = []

    def distribution(
        self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor, mode: str | None = None
    ) -> FakeDistribution:
        assert not self.training
        assert not torch.is_grad_enabled()
        self.seen.append(input_ids)
        return FakeDistribution(torch.log_softmax(self.scores(input_ids, mode or "joint")[positions], -1))


def copier(vocabulary: int, words: set[int], first: float = 5.0) -> Callable[[Tensor, str], Tensor]:
    """Puts all words of ``words`` seen so far on top; cache-only gives everything not seen probability 0."""

    def scores(ids: Tensor, mode: str) -> Tensor:
        seen = torch.nn.functional.one_hot(ids, vocabulary).cumsum(dim=1) > 0
        is_word = torch.tensor([token in words for token in range(vocabulary)])
        # A little of the id, so that no two values tie.
        base = first * (seen & is_word) + torch.arange(vocabulary) * 1e-4
        return base.masked_fill(~seen, -math.inf) if mode == "cache_only" else base

    return scores


class FakeWriter(FakeModel):
    """An encoder-decoder model: ``scores(decoder ids (B, T), mode)``; it writes what ``write(source ids)`` says."""

    def __init__(self, scores: Callable[[Tensor, str], Tensor], write: Callable[[list[int]], list[int]]) -> None:
        super().__init__(scores)
        self.config.is_encoder_decoder = True
        self.write = write
        self.asked: dict[str, object] = {}
        self.generation_config = GenerationConfig(no_repeat_ngram_size=3, max_new_tokens=1)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        return torch.nn.functional.pad(labels, (1, -1), value=0).clamp(min=0)

    def distribution(self, input_ids: Tensor, attention_mask: Tensor, **decoder: Tensor) -> FakeDistribution:
        assert input_ids.shape == attention_mask.shape
        return super().distribution(decoder["decoder_input_ids"], attention_mask, decoder["positions"])

    def _prepare_generation_config(
        self, config: None, **arguments: object
    ) -> tuple[GenerationConfig, dict[str, object]]:
        return self.generation_config, arguments

    def generate(self, input_ids: Tensor, attention_mask: Tensor, logits_processor: object = None) -> Tensor:
        assert not self.training
        self.asked = self.generation_config.to_diff_dict()
        texts = [self.write(row[seen.bool()].tolist()) for row, seen in zip(input_ids, attention_mask, strict=True)]
        rows = [[0, *text] for text in texts]  # after the token that a decoder begins with
        length = max(map(len, rows))
        return torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
