"""Prompts as token ids, checked against what the model reads and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nextword.inference.generation.prompt_files import TextPrompt
from nextword.inference.scoring.example_encoding import EncodedExample
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.prompt_encoding import encode_prompt
from nextword.inference.scoring.remembered_windows import looks_beyond_windows
from nextword.runtime.pretrained import encoder_config
from nextword.settings.setting_names import named


def encode_prompts(opened: OpenedModel, prompts: Sequence[TextPrompt], chat: bool = False) -> list[EncodedExample]:
    """The prompts in tokens of a model, with nothing written yet.

    A decoder-only model reads a start token and the prompt. An encoder-decoder model reads the source, or the prompt
    where there is no source.

    Args:
        opened: The model.
        prompts: What it is to read.
        chat: Whether a prompt is what a user says, put into the chat template of the tokenizer.

    Raises:
        ValueError: Something is missing that the model reads, or the tokenizer has no chat template.
    """
    return [_encode(opened, _as_read(opened, prompt), chat) for prompt in prompts]


def _as_read(opened: OpenedModel, prompt: TextPrompt) -> TextPrompt:
    """The prompt with its text where the model reads it."""
    if opened.has_encoder and prompt.source is None:
        return replace(prompt, source=prompt.prompt, prompt="")
    if opened.has_encoder and prompt.prompt:
        raise ValueError(
            f"prompt {prompt.id}: an encoder-decoder model reads a source and no prompt beside it (both given); give "
            "only one"
        )
    if opened.auxiliary_tokenizer is not None and prompt.auxiliary is None:
        raise ValueError(
            f"prompt {prompt.id}: the model follows an auxiliary text, and there is none; give it in a JSON line, as "
            '{"prompt": "...", "auxiliary": "..."}'
        )
    return prompt


def _encode(opened: OpenedModel, prompt: TextPrompt, chat: bool) -> EncodedExample:
    tokenizer: Any = opened.tokenizer
    specials = 0
    if chat:
        context = _chat_ids(tokenizer, prompt.source if prompt.source is not None else prompt.prompt)
    elif opened.has_encoder:
        context = list(tokenizer(prompt.source)["input_ids"])
    else:
        context, specials = encode_prompt(tokenizer, prompt.prompt), 1
    if not context:
        raise ValueError(f"prompt {prompt.id}: the source has no tokens; give a text")
    return EncodedExample(context, [], 0, prompt.example(""), [], specials)


def _chat_ids(tokenizer: Any, said: str) -> list[int]:
    if not tokenizer.chat_template:
        raise ValueError(f"{named('chat')}: tokenizer '{tokenizer.name_or_path}' has no chat template; leave it out")
    turn = [{"role": "user", "content": said}]
    made = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True)
    return list(made["input_ids"])


def expect_room(opened: OpenedModel, encoded: Sequence[EncodedExample], new: int) -> None:
    """Raises ValueError where a prompt and the new tokens, or a source, are more than the model has positions for."""
    if not opened.has_encoder:
        for one in encoded:
            _expect_length(one, new, opened)
        return
    config = opened.model.config
    limit = getattr(encoder_config(config), "max_position_embeddings", None)
    for one in encoded:
        if limit is not None and len(one.context) > limit:
            raise ValueError(
                f"prompt {one.example.id}: its {len(one.context)} tokens are more than the {limit} that the encoder "
                "has positions for; shorten it"
            )
    # The decoder begins with one token of its own.
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and new + 1 > limit:
        raise ValueError(
            f"{named('max_new_tokens')}: must be at most {limit - 1}, the decoder has {limit} positions ({new} given)"
        )


def _expect_length(one: EncodedExample, new: int, opened: OpenedModel) -> None:
    length, limit = len(one.context), opened.longest
    # The last new token is written, not read.
    if limit is None or length + new - 1 <= limit:
        return
    room = limit - length + 1
    advice = f"set {named('max_new_tokens')} to at most {room}, or shorten it" if room > 0 else "shorten it"
    if looks_beyond_windows(opened.model):
        advice += ", or let nextword.inference.scoring.remembered_text.remember read its beginning"
    raise ValueError(
        f"prompt {one.example.id}: its {length} tokens and {new} new ones are more than the {limit} that the model has "
        f"positions for; {advice}"
    )
