"""What a written text is as a line of a samples file (docs/file-formats.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.target_likelihood import TokenPair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


DIGITS = 6
"""Log-probabilities in samples files are rounded to so many."""


def sample_line(
    tokenizer: PreTrainedTokenizerBase,
    prompt: Prompt,
    text: str,
    token_ids: Sequence[int],
    columns: Mapping[str, Any],
) -> dict[str, Any]:
    """The line of a text; ``columns`` stand behind what every line has."""
    shown = prompt.context[prompt.start :]
    read = prompt.text if prompt.source is None else prompt.source
    beside = {"source": prompt.source, "auxiliary": prompt.auxiliary}
    return {
        "id": prompt.number,
        "prompt": decoded(tokenizer, shown) if read is None else read,
        **{name: value for name, value in beside.items() if value is not None},
        "prompt_token_ids": shown,
        "text": text,
        "token_ids": token_ids,
        **columns,
    }


def texts_and_tokens(tokenizer: PreTrainedTokenizerBase, references: Sequence[str]) -> dict[str, Any]:
    """Columns of the human references, as texts and in tokens."""
    ids = tokenizer(list(references), add_special_tokens=False, verbose=False)["input_ids"]
    return {"references": list(references), "reference_token_ids": ids}


def target_columns(target: TokenPair, log_probs: Tensor) -> dict[str, Any]:
    """Columns of the human references as they were scored, with the log-probability of each token."""
    return {
        "target_token_ids": target.target,
        "target_bytes": target.target_bytes,
        "log_probs": [round(value, DIGITS) for value in log_probs.tolist()],
    }


def decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """What the ids say, special tokens included; a character of which bytes are missing becomes U+FFFD."""
    text = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return str(text)
