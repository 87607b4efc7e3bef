"""Random numbers per row, so that the samples of a text do not depend on the other texts in its batch.

Transformers' ``generate`` uses one stream of random numbers for all rows of a batch, so the texts change with the batch
size and the order of the prompts. Here every row has its own stream. A token is sampled by inverting the cumulative
distribution at one number of the stream, which gives the same distribution.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from nextword.functional.probability import drawn_at
from nextword.model.speculative_decoding.speculative_decoding import SpeculativeDecoding
from nextword.model.speculative_decoding.speculative_loop import SpeculativeLoop

if TYPE_CHECKING:
    from nextword.model.modeling import NextWordModel

KEY_BITS, SEED_BITS = 128, 63
"""Number of bits of a key (``stream_key``), and of a seed of torch."""


def stream_key(*parts: object) -> int:
    """A 128-bit hash of a seed, a prompt and other values that identify a text.

    >>> stream_key(0, [5, 6], 1) == stream_key(0, [5, 6], 1) != stream_key(0, [5, 6], 2)
    True
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:16], "big")


def text_keys(seed: int | None, contents: Sequence[tuple[object, ...]], samples: int) -> list[int]:
    """Makes a key (see ``stream_key``) for each text, with ``samples`` texts per prompt, in the order of the prompts.

    A key depends on the seed, the index of the text among the texts of its prompt, and the content of the prompt, but
    not on the prompt's index. So a key stays the same if different prompts are added, removed or reordered. Equal
    prompts are numbered, so that their texts have different keys.

    ``contents`` has the tokens of each prompt, and its auxiliary text or None.
    """
    seen: Counter[int] = Counter()
    keys: list[int] = []
    for content in contents:
        made_of = stream_key(*content)
        keys += [stream_key(seed, made_of, seen[made_of], sample) for sample in range(samples)]
        seen[made_of] += 1
    return keys


def uniform_numbers(keys: Sequence[int], count: int) -> Float[Tensor, "B T"]:
    """The first ``count`` random numbers in [0, 1) that each key determines, in double precision.

    >>> torch.equal(uniform_numbers([3, 4], 5)[1, :2], uniform_numbers([4], 2)[0])
    True
    """
    rows = [np.random.Generator(np.random.Philox(key=key)).random(count) for key in keys]
    return torch.from_numpy(np.stack(rows))


class RowSampler(LogitsProcessor):
    """A logits processor that samples one token per row and excludes all others, so ``generate`` takes this token.

    This processor must be the last one, after temperature, top-k, top-p and all others. ``uniform`` has a number in
    [0, 1) for each row and new token. ``begin`` is the number of tokens of each row before its first new token.
    """

    def __init__(self, uniform: Float[Tensor, "B T"], begin: int) -> None:
        self.uniform, self.begin = uniform, begin

    def __call__(self, input_ids: Int[Tensor, "B L"], scores: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """Scores of 0 for the sampled token and -inf for all others. A row with only scores of -inf is unchanged."""
        step = input_ids.shape[1] - self.begin
        drawn = drawn_at(scores, self.uniform[:, step])
        alone = torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)
        return torch.where(scores.amax(-1, keepdim=True) == -torch.inf, scores, alone)


@dataclass(frozen=True)
class RowwiseLoop:
    """Greedy search and sampling as in transformers, with a random stream per row.

    ``generate`` accepts an instance as ``custom_generate``. If ``uniform`` is None, sampling uses torch's generator;
    greedy search needs no random numbers. ``streamer`` receives each new token, but not the prompt.
    """

    uniform: Float[Tensor, "B T"] | None
    streamer: Any = None

    def __call__(
        self,
        model: NextWordModel,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        """Generates the texts; transformers' ``generate`` calls this method instead of its own loop."""
        if self.uniform is not None:
            sampler = RowSampler(self.uniform, input_ids.shape[1])
            logits_processor = LogitsProcessorList([*logits_processor, sampler])
        return model._sample(
            input_ids, logits_processor, stopping_criteria, generation_config, streamer=self.streamer, **model_kwargs
        )


def rowwise_loop(
    uniform: Float[Tensor, "B T"] | None, drafting: SpeculativeDecoding | None = None, streamer: Any = None
) -> RowwiseLoop | SpeculativeLoop:
    """Makes a ``RowwiseLoop`` with the random numbers ``uniform``, or with ``drafting`` a ``SpeculativeLoop``."""
    if drafting is None:
        return RowwiseLoop(uniform, streamer)
    return SpeculativeLoop(drafting, uniform, streamer)


def batch_seed(keys: Sequence[int]) -> int:
    """Seed, made from ``keys``, of torch's generator, for loops without random numbers per row (beams, assistant)."""
    return stream_key(*keys) >> (KEY_BITS - SEED_BITS)
