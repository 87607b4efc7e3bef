"""Tokens that a task adds to a tokenizer, such as the marks around the parts of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def with_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> PreTrainedTokenizerBase:
    """The same tokenizer, of which each of these texts is one token now; the space before it belongs to it."""
    from tokenizers import AddedToken

    tokenizer.add_tokens([AddedToken(token, lstrip=True, normalized=False) for token in tokens])
    return tokenizer


def add_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> None:
    """Adds tokens to the tokenizer of a pretrained model, which gets a random embedding for each that is new."""
    with_tokens(tokenizer, tokens)
    embeddings: Any = model.get_input_embeddings()
    if tokens and len(tokenizer) > embeddings.num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
