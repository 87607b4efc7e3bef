"""Stories in tokens: one after the other, or each as a prompt and what people wrote after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch

from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.long_text import TokenStream
from nextword.inference.scoring.prompt_encoding import start_id
from nextword.inference.scoring.text_tokens import ids_and_bytes, token_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def end_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Token that ends a story: the tokenizer's eos, else its bos."""
    return start_id(tokenizer) if tokenizer.eos_token_id is None else int(tokenizer.eos_token_id)


def story_ids(tokenizer: PreTrainedTokenizerBase, stories: Iterable[str]) -> list[int]:
    """Stories one after the other: a start token, a story, an end token.

    Where one token is both, as in GPT-2, it stands once between two stories.
    """
    start, end = start_id(tokenizer), end_id(tokenizer)
    before = [] if start == end else [start]
    ids = [start, *(token for story in stories for token in (*before, *token_ids(tokenizer, story), end))]
    return ids[len(before) :]


def story_stream(tokenizer: PreTrainedTokenizerBase, stories: Iterable[str], limit: int | None) -> TokenStream:
    """The same with the bytes that each token covers, of which a token between stories covers none.

    Args:
        tokenizer: Of the model.
        stories: The stories, of which no more are read than are needed.
        limit: Tokens after the first at most; None: all.
    """
    start, end = start_id(tokenizer), end_id(tokenizer)
    before = [] if start == end else [start]
    ids, text_bytes = [start], [0]
    for story in stories:
        found, covered = ids_and_bytes(tokenizer, story)
        ids += [*before, *found, end]
        text_bytes += [*(0 for _ in before), *covered.tolist(), 0]
        if limit is not None and len(ids) > limit + len(before):
            break
    first = len(before)
    stop = None if limit is None else first + 1 + limit
    return TokenStream(torch.tensor(ids[first:stop]), np.array(text_bytes[first + 1 : stop], dtype=np.int64))


def story_prompts(
    tokenizer: PreTrainedTokenizerBase, stories: Iterable[str], count: int, prefix: int, longest: int
) -> list[Prompt]:
    """The beginnings of the first stories that go on after them.

    The target is what people wrote there, as long as a text may be, with the end token where the story ends in it.

    Args:
        tokenizer: Of the model.
        stories: The stories, of which no more are read than are needed.
        count: Prompts at most.
        prefix: Tokens of a prompt; shorter stories are left out.
        longest: Tokens of a target at most, the end token not counted.

    Raises:
        ValueError: No story is longer than a prompt.
    """
    prompts: list[Prompt] = []
    for story in stories:
        if len(prompts) == count:
            break
        ids, text_bytes = ids_and_bytes(tokenizer, story)
        if len(ids) <= prefix:
            continue
        rest = slice(prefix, prefix + longest)
        ended = [end_id(tokenizer)] if len(ids) <= prefix + longest else []
        context = [start_id(tokenizer), *ids[:prefix]]
        prompts.append(Prompt(context, [*ids[rest], *ended], int(text_bytes[rest].sum()), len(prompts), start=1))
    if not prompts:
        raise ValueError(
            f"task.generation.prefix: must be shorter than some test story ({prefix} tokens given); give a shorter one"
        )
    return prompts
