"""Prompts and answers as token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
