"""Prompts and answers as token ids, and asking a model about the last position of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nextword.functional.padding import padded
from nextword.model.modes import as_in_evaluation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Progress = Callable[[float], None]


def part_of(progress: Progress | None, begin: float, end: float) -> Progress:
    """Progress of a part, as that of the whole.

    >>> shares = []
    >>> part_of(shares.append, 0.5, 1.0)(0.5)
    >>> shares
    [0.75]
    """

    def report(share: float) -> None:
        if progress is not None:
            progress(begin + share * (end - begin))

    return report


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


def last_positions(mask: Tensor) -> Tensor:
    """True at each row's last real token, (B, T)."""
    return torch.arange(mask.shape[1])[None, :] == mask.sum(dim=1, keepdim=True) - 1


@contextmanager
def measuring(model: Any) -> Iterator[None]:
    """Without dropout and gradients; each part's training mode is restored after."""
    with as_in_evaluation(model), torch.no_grad():
        yield


def ask(
    model: Any, rows: Sequence[Sequence[int]], pad: int, mode: str = "joint", everywhere: bool = False
) -> tuple[Any, Tensor]:
    """Distribution after each row (or at every real position), and the chosen positions (B, T)."""
    ids, mask = padded(rows, pad)
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
