"""Prompts and answers as token ids, right padding, and asking a model about the last position of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""Label of a position that is no target."""


def start_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Token that stands before every text: the tokenizer's bos, else its eos.

    Raises:
        ValueError: It has neither.
    """
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise ValueError(f"tokenizer '{tokenizer.name_or_path}' has neither a bos nor an eos token; set one of them")


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Start token and the prompt."""
    return [start_id(tokenizer), *tokenizer(prompt, add_special_tokens=False)["input_ids"]]


def encode_answer(tokenizer: PreTrainedTokenizerBase, prompt: str, word: str) -> list[int]:
    """Tokens of ``word`` as it follows ``prompt`` after a space; several where the tokenizer cuts the word up.

    Raises:
        ValueError: The tokenizer merges the word into the prompt, so that it cannot be predicted from the prompt.
    """
    alone = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    together = tokenizer(f"{prompt} {word}", add_special_tokens=False)["input_ids"]
    if together[: len(alone)] != alone or len(together) == len(alone):
        raise ValueError(f"tokenizer '{tokenizer.name_or_path}': '{word}' gets no tokens of its own after '{prompt}'")
    answer: list[int] = together[len(alone) :]
    return answer


def pad_right(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Ids (B, T) and attention mask (B, T). On the right, so that position ids count from each row's first token."""
    length = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[pad] * (length - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return ids, mask


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Ids (B, T) and attention mask (B, T) for texts that are gone on with, all of which end in the last column.

    >>> pad_left([[5, 6], [7]], pad=0)
    (tensor([[5, 6],
            [0, 7]]), tensor([[1, 1],
            [0, 1]]))
    """
    length = max(len(row) for row in rows)
    ids = torch.tensor([[*[pad] * (length - len(row)), *row] for row in rows])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def last_positions(mask: Tensor) -> Tensor:
    """True at each row's last real token, (B, T)."""
    return torch.arange(mask.shape[1])[None, :] == mask.sum(dim=1, keepdim=True) - 1


@contextmanager
def measuring(model: Any) -> Iterator[None]:
    """Without dropout and gradients; the model's training mode is restored after."""
    was_training = bool(model.training)
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def ask(
    model: Any, rows: Sequence[Sequence[int]], pad: int, mode: str = "joint", everywhere: bool = False
) -> tuple[Any, Tensor]:
    """Distribution after each row (or at every real position), and the chosen positions (B, T)."""
    ids, mask = pad_right(rows, pad)
    positions = mask.bool() if everywhere else last_positions(mask)
    on = model.device
    return model.distribution(ids.to(on), attention_mask=mask.to(on), positions=positions.to(on), mode=mode), positions


def batches(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """``rows`` in slices of at most ``size``.

    >>> [list(part) for part in batches([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]
