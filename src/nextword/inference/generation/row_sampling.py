"""Random numbers of a row's own: what is sampled for one text does not depend on the texts beside it in a batch.

``generate`` draws the tokens of all rows of a batch from one stream of random numbers, so that another batch size or
another order of the prompts gives other texts. Here every row has its stream, and a token is sampled by inverting the
cumulative distribution at one number of it: a sample of the same distribution.
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
"""Bits of a key, and of a seed of torch."""


def stream_key(*parts: object) -> int:
    """A 128-bit number for a seed, a prompt and whatever else tells a text from others.

    >>> stream_key(0, [5, 6], 1) == stream_key(0, [5, 6], 1) != stream_key(0, [5, 6], 2)
    True
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:16], "big")


def text_keys(seed: int | None, contents: Sequence[tuple[object, ...]], samples: int) -> list[int]:
    """The keys of so many texts after each prompt, one prompt after the other.

    A key is made of seed, sample and what the prompt says, not of its place: it stays the same where prompts are added,
    taken away or put into another order. Of equal prompts each has keys of its own.

    What each prompt says (``contents``) are its tokens, and its auxiliary text or None.
    """
    seen: Counter[int] = Counter()
    keys: list[int] = []
    for content in contents:
        made_of = stream_key(*content)
        keys += [stream_key(seed, made_of, seen[made_of], sample) for sample in range(samples)]
        seen[made_of] += 1
    return keys


def uniform_numbers(keys: Sequence[int], count: int) -> Float[Tensor, "B T"]:
    """For each key its first ``count`` numbers in [0, 1), in double precision; longer streams begin with shorter ones.

    >>> torch.equal(uniform_numbers([3, 4], 5)[1, :2], uniform_numbers([4], 2)[0])
    True
    """
    rows = [np.random.Generator(np.random.Philox(key=key)).random(count) for key in keys]
    return torch.from_numpy(np.stack(rows))


class RowSampler(LogitsProcessor):
    """Draws each row's token and leaves it alone possible, so that whatever ``generate`` draws next is that token.

    It must be the last processor: what comes before it (temperature, top-k, top-p, ...) shapes what is sampled from.

    Each row has ``begin`` tokens before the first new one.
    """

    def __init__(self, uniform: Float[Tensor, "B T"], begin: int) -> None:
        self.uniform, self.begin = uniform, begin

    def __call__(self, input_ids: Int[Tensor, "B L"], scores: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """Zero at the token that is drawn, -inf elsewhere; rows in which nothing is possible stay as they are."""
        step = input_ids.shape[1] - self.begin
        drawn = drawn_at(scores, self.uniform[:, step])
        alone = torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)
        return torch.where(scores.amax(-1, keepdim=True) == -torch.inf, scores, alone)


@dataclass(frozen=True)
class RowwiseLoop:
    """Greedy search and sampling as transformers does them, with what each row draws taken from its own stream.

    An instance is what ``generate`` takes as ``custom_generate``. Without numbers nothing is drawn; a streamer is
    handed each token as it is chosen, the prompt not.
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
        """Called by ``generate`` in place of its own loop."""
        if self.uniform is not None:
            sampler = RowSampler(self.uniform, input_ids.shape[1])
            logits_processor = LogitsProcessorList([*logits_processor, sampler])
        return model._sample(
            input_ids, logits_processor, stopping_criteria, generation_config, streamer=self.streamer, **model_kwargs
        )


def rowwise_loop(
    uniform: Float[Tensor, "B T"] | None, drafting: SpeculativeDecoding | None = None, streamer: Any = None
) -> RowwiseLoop | SpeculativeLoop:
    """The loop that samples each row by its own numbers, token by token or several per pass (``drafting``)."""
    if drafting is None:
        return RowwiseLoop(uniform, streamer)
    return SpeculativeLoop(drafting, uniform, streamer)


def batch_seed(keys: Sequence[int]) -> int:
    """Seed of torch's generator for a batch, for what no row draws by itself (beams, an assistant, classes)."""
    return stream_key(*keys) >> (KEY_BITS - SEED_BITS)
