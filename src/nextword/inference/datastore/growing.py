"""Datastores in memory that grow: new texts are appended, and beyond a maximum size the oldest tokens are dropped."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from nextword.heads.knn import KnnHead
from nextword.inference.datastore.build import DocumentWindow, expect_decoder, states_of
from nextword.inference.scoring.long_text import windows_after
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel
from nextword.inference.scoring.text_tokens import start_id, token_ids
from nextword.retrieval import RecentKeys


def remember_recent(model: AnyModel, most: int) -> None:
    """Gives a model with the head ``knn`` an empty in-memory datastore, in addition to the one on disk.

    The new datastore keeps the ``most`` newest tokens. It replaces an in-memory datastore that the model already has.

    Raises:
        ValueError: If the model has another head, or ``most`` is below 1.
    """
    opened = OpenedModel.of(model)
    head = _knn(opened)
    head.recent = RecentKeys(head.dimensions.hidden, most, start_id(opened.tokenizer))


def grow(model: AnyModel, text: str, *, window: int = 512) -> int:
    """Appends a text to the model's in-memory datastore, so that the head can retrieve its tokens.

    Args:
        model: A model to which ``remember_recent`` gave an in-memory datastore.
        text: The text. It becomes a new document, numbered after those of the datastore on disk.
        window: Number of tokens that the model sees at once, at most its maximum.

    Returns:
        Number of tokens of the text.

    Raises:
        ValueError: If the model has no in-memory datastore.
    """
    opened = OpenedModel.of(model)
    return grow_by_tokens(opened, [start_id(opened.tokenizer), *token_ids(opened.tokenizer, text)], window=window)


def grow_by_tokens(opened: OpenedModel, ids: Sequence[int], *, window: int = 512) -> int:
    """Like ``grow``, but appends token ids. The first of ``ids`` is only context; the number of the others is returned.

    A forward pass that runs meanwhile in another thread still reads the datastore without these tokens.
    """
    head = _knn(opened)
    if head.recent is None:
        raise ValueError(
            "model: must have an in-memory datastore (it has none); call remember_recent(model, most) first"
        )
    size = min(window, opened.longest or window)
    spans = windows_after(1, len(ids), size, max(1, size // 2)) if len(ids) > 1 else []
    parts = [DocumentWindow(0, 0, list(ids[one.begin : one.targets.stop]), one.scored) for one in spans]
    if parts:
        states = torch.from_numpy(np.concatenate(states_of(opened, parts, batch_size=8)))
        recent = copy.deepcopy(head.recent)
        recent.append(states, torch.tensor(ids[1:]))
        head.recent = recent
    return len(ids) - 1


@contextlib.contextmanager
def remembering(opened: OpenedModel, most: int) -> Iterator[Callable[[Sequence[int]], int]]:
    """Gives the model an empty in-memory datastore in a ``with`` block; yields ``grow_by_tokens`` for this model."""
    head = _knn(opened)
    before = head.recent
    remember_recent(opened, most)
    try:
        yield partial(grow_by_tokens, opened)
    finally:
        head.recent = before


def expect_growing(opened: OpenedModel) -> None:
    """Raises ValueError unless the model has the head ``knn``, is decoder-only and has no conditioner."""
    _knn(opened)
    expect_decoder(opened)


def _knn(opened: OpenedModel) -> KnnHead:
    head: Any = opened.model.next_word_head
    if not isinstance(head, KnnHead):
        raise ValueError(f"model: must have the head knn ('{head.config.head}' given); attach it first")
    return head
