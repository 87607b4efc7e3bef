"""Requests through continuous batching beside ``generate`` of each alone, and what the batches did on the way."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.offloading_manager import OffloadingManager

from tests.helpers.generating_models import PAD, headed
from tests.helpers.recomputation import generated, step_log_probs

TOLERANCE = 1e-5
"""Of log-probabilities in single precision."""
NEW = 6
"""Tokens to generate."""
PAGE = 4
"""Places of a block."""


@cache
def single(family: str, head: str) -> Any:
    """The model of ``headed`` in single precision, which continuous batching answers in; not to change."""
    return copy.deepcopy(headed(family, head)).float()


@cache
def prompts() -> list[list[int]]:
    """Prompts of 1 to 19 tokens, five of which begin alike for more than two blocks; words repeat."""
    generator = torch.Generator().manual_seed(2)

    def words(count: int) -> list[int]:
        return torch.randint(3, 20, (count,), generator=generator).tolist()

    beginning = words(2 * PAGE + 2)
    apart = [words(length) for length in (1, 5, 12, 19, 3)]
    alike = [beginning + words(length) for length in (0, 1, 4, 7, 7)]
    return [prompt for pair in zip(alike, apart, strict=True) for prompt in pair]


def greedy(**settings: Any) -> GenerationConfig:
    """Greedy search that never ends early."""
    return GenerationConfig(
        **{"max_new_tokens": NEW, "do_sample": False, "eos_token_id": -1, "pad_token_id": PAD} | settings
    )


def batching(**settings: Any) -> ContinuousBatchingConfig:
    """Few tokens a pass, so that prompts come in pieces; room for all unless told otherwise."""
    return ContinuousBatchingConfig(
        **{"page_size": PAGE, "num_blocks": 80, "max_batch_tokens": 16, "return_logprobs": True} | settings
    )


@cache
def alone(family: str, head: str, prompt: tuple[int, ...], new: int = NEW, **settings: Any) -> tuple[list[int], Tensor]:
    """What ``generate`` writes after one prompt, and the log-probability of each of its tokens."""
    return written_alone(single(family, head), prompt, new, **settings)


def written_alone(model: Any, prompt: Sequence[int], new: int = NEW, **settings: Any) -> tuple[list[int], Tensor]:
    """The same of any model."""
    ids = torch.tensor([prompt])
    out = generated(model, ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, **settings)
    written = out.sequences[0, len(prompt) :]
    return written.tolist(), step_log_probs(out)[0].gather(1, written[:, None])[:, 0]


def assert_as_alone(family: str, head: str, prompt: list[int], result: Any, **settings: Any) -> None:
    """One request's tokens and their log-probabilities are those of ``generate``."""
    assert_written(result, *alone(family, head, tuple(prompt), len(result.generated_tokens), **settings))


def assert_written(result: Any, tokens: list[int], log_probs: Tensor) -> None:
    """A request has these tokens and log-probabilities."""
    assert result.error is None
    assert result.generated_tokens == tokens
    found = torch.tensor(result.logprobs, dtype=log_probs.dtype)
    assert torch.allclose(found, log_probs, rtol=0, atol=TOLERANCE)


def assert_batches_as_alone(family: str, head: str, **settings: Any) -> None:
    """All prompts in one call."""
    results = single(family, head).generate_batch(prompts(), greedy(), batching(**settings))
    assert len(results) == len(prompts())
    for prompt, result in zip(prompts(), results.values(), strict=True):
        assert_as_alone(family, head, prompt, result)


@contextmanager
def counted(patch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many tokens were found in shared blocks, requests put aside and blocks copied within this block."""
    counts: Counter[str] = Counter()
    search, offload = PagedAttentionCache.search_prefix_match, OffloadingManager.offload_requests
    copies = PagedAttentionCache.perform_cache_copy

    def searched(self: Any, *args: Any) -> int:
        found = search(self, *args)
        counts["shared"] += found
        return found

    def offloaded(self: Any) -> bool:
        before = len(self.scheduler.active_requests)
        done = offload(self)
        counts["put aside"] += before - len(self.scheduler.active_requests)
        return done

    def copied(self: Any, blocks: Any) -> None:
        counts["copied"] += sum(len(source) for source, _ in blocks.values())
        copies(self, blocks)

    with patch.context() as patched:
        patched.setattr(PagedAttentionCache, "search_prefix_match", searched)
        patched.setattr(OffloadingManager, "offload_requests", offloaded)
        patched.setattr(PagedAttentionCache, "perform_cache_copy", copied)
        yield counts
