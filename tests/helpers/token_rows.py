"""A scored text made of token ids alone, for what asks no model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.measurement.scored_texts import ScoredText


def token_row(
    target: Sequence[int], prompt: Sequence[int] = (), visible: Sequence[int] | None = None, **read: Sequence[int]
) -> ScoredText:
    """A text of such tokens, each a byte long.

    Args:
        target: What is scored.
        prompt: What stands before it.
        visible: Per token, the first that the model sees; all by default.
        read: ``source`` or ``auxiliary``.
    """
    return ScoredText(
        example=Example("x" * len(target)),
        context=np.array([1, *prompt]),
        specials=1,
        target=np.array(target),
        ends=np.arange(1, len(target) + 1),
        is_special=np.zeros(len(target), dtype=bool),
        visible=np.zeros(len(target), dtype=np.int64) if visible is None else np.array(visible),
        copied_from={name: np.array(ids, dtype=np.int64) for name, ids in read.items()},
    )
