"""The unit of an evaluation: token ids of the samples, tokens of a tokenizer, or words."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from nextword.evaluation.metrics.parts.sample import Sample
from nextword.evaluation.metrics.parts.units import GivenIds, Unit, Words, as_ids
from nextword.functional.frequency.counts import TokenCounts
from nextword.runtime.pretrained import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Tokens(Unit):
    """Tokens of a Hugging Face tokenizer, without special tokens.

    Args:
        tokenizer: The tokenizer.
        name: What it is called in reports.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        self._tokenizer = tokenizer
        self.name = f"tokens of {name}"
        self.size = len(tokenizer)
        # An unknown or masked token stands for text; these three do not.
        ends = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
        self.special = frozenset(token for token in ends if token is not None)

    @classmethod
    def load(cls, path: str) -> Tokens:
        """The tokenizer at a path or of a hub name.

        Raises:
            ValueError: It cannot be loaded.
        """
        return cls(load_tokenizer(path, "tokenizer"), path.rstrip("/").rpartition("/")[2])

    def ids(self, text: str) -> Int[np.ndarray, "T"]:
        """The token ids of ``text``."""
        # verbose=False: a text longer than a model's limit is no fault where only its tokens are counted.
        return as_ids(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def expect_counts_of_it(self, counts: TokenCounts, where: str) -> None:
        """Counts say which tokenizer made them."""
        counts.expect_tokenizer(self._tokenizer, where)


def unit_for(sample: Sample, tokenizer: str | None, special: Collection[int] = ()) -> Unit:
    """The unit: that of the tokenizer where one is named, the samples' own ids where they have some, else words.

    Ids that the samples bring along must be those of the tokenizer, where one is named; they are used as they are.

    Args:
        sample: The first sample.
        tokenizer: Path or hub name.
        special: Ids of the samples that are no text, where no tokenizer says which.
    """
    if tokenizer is not None:
        return Tokens.load(tokenizer)
    has_ids = sample.token_ids is not None or sample.reference_token_ids is not None
    return GivenIds(special) if has_ids else Words()
