"""What is scored must not be stored: a text that stands in the corpus is refused."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from nextword.retrieval.ngram.text_index import BELOW, TextIndex
from nextword.settings.setting_names import either

RUN = 32
"""Tokens in a row that are looked up together; all of a shorter text."""

SHORTEST = 8
"""A text of fewer tokens may stand anywhere, and says nothing."""

STORED = 0.5
"""A text of which more than this part of the runs stands in the corpus counts as stored."""


def expect_held_out(index: TextIndex, name: str, ids: Int[np.ndarray, "T"]) -> None:
    """Passes where a text is not in the corpus.

    The text is cut into runs of ``RUN`` tokens, and each is looked up. Names, quotations and headings that a new text
    shares with the corpus are shorter or few.

    Args:
        index: The corpus.
        name: What the text is called.
        ids: Its tokens.

    Raises:
        ValueError: More than half of its runs stand in the corpus; says where.
    """
    if len(ids) < SHORTEST:
        return
    length = min(RUN, len(ids) - 1)  # nothing comes after the last token of a stored document
    ends = np.unique(np.append(np.arange(length, len(ids), length), len(ids) - 1))
    queries = np.asarray(ids)[ends[:, None] - 1 - np.arange(length)] + 1
    queries = np.where(queries > 0, queries, BELOW).astype(np.int64)
    at = index.bisect(queries)
    found = index.common(at, queries) == length
    if found.mean() <= STORED:
        return
    documents, offsets = index.next_offsets(at[found][:1])
    where = f"'{index.names[int(documents[0])]}' from token {int(offsets[0]) - length + 1:,} on"
    raise ValueError(
        f"{name}: must not be in the text memory that helps to predict it ({int(found.sum()):,} of {len(found):,} runs "
        f"of {length} tokens are, the first in {where}); take another text, or allow it with "
        f"{either('--stored-text', 'stored=True')}"
    )
