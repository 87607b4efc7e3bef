"""Prompts for generation, with human references."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nextword.evaluation.metrics.sample import Sample
from nextword.evaluation.metrics.tokens import Words
from nextword.evaluation.samples import plain_text_of, read_samples
from nextword.inference.scoring.example_encoding import Example
from nextword.inference.scoring.likelihood import TokenPair
from nextword.inference.scoring.long_text import looks_beyond_windows
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.text_tokens import encode_prompt
from nextword.runtime.corpora import numbered_lines
from nextword.runtime.pretrained import encoder_config
from nextword.settings.config import expect_whole_characters
from nextword.settings.setting_names import either, named


@dataclass(frozen=True)
class Prompt(TokenPair):
    """A tokenised prompt (``context``) with its human reference (``target``).

    Attributes:
        number: Index of the prompt among all prompts, from 0, or its id in the file of prompts.
        start: Number of special tokens at the beginning of the context, such as a start token. Samples files omit these
            tokens.
        source: Source text, shown as the prompt; None: the context is the prompt.
        references: All human references as whole texts. Needed if there are several, or if the target is truncated.
            Empty: the target is the only reference.
        columns: Further columns of the prompt's line in a samples file. They replace columns of the same name.
        text: Text that is continued; None: decoded from the context.
        auxiliary: Auxiliary text of a conditioned model.
    """

    number: int | str
    start: int = 0
    source: str | None = None
    references: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    auxiliary: str | None = None

    @property
    def example(self) -> Example:
        """The prompt as an ``Example`` whose text is empty."""
        return Example("", self.text or "", self.source, self.auxiliary, self.number)


# -- Prompts as text, from the command line, plain text, JSON lines, or the samples file of an earlier run.

FIELDS = ("prompt", "source", "auxiliary")
"""Fields of a JSON line that a model can read. Each line needs at least one of them."""


@dataclass(frozen=True)
class TextPrompt:
    """A prompt as text.

    Attributes:
        prompt: Text that is continued.
        source: Source text of an encoder-decoder model.
        auxiliary: Auxiliary text of a conditioned model.
        references: The human references, which are copied to the samples file.
        id: Name of the prompt in samples files and error messages.

    Raises:
        ValueError: If a text has half a character (an unpaired surrogate).
    """

    prompt: str = ""
    source: str | None = None
    auxiliary: str | None = None
    references: tuple[str, ...] = ()
    id: str | int = 0

    def __post_init__(self) -> None:
        for text in (self.prompt, self.source, self.auxiliary):
            expect_whole_characters(text or "", f"prompt {self.id}")


def read_prompts(path: Path, whole: bool = False, fields: Mapping[str, str] | None = None) -> list[TextPrompt]:
    """Reads prompts from a file.

    JSON lines have the keys of a samples file: ``prompt``, ``source``, ``references`` (or ``reference``), ``id``, and
    ``auxiliary``. So the file may be a samples file of an earlier run; a prompt with several texts is then read once.
    In plain text each line is a prompt, even an empty line.

    Args:
        path: A ``.jsonl`` file, or plain text.
        whole: Whether a plain text file is a single prompt, including its last line end.
        fields: A mapping from these keys to keys in the file, such as ``{"prompt": "question"}``; None: the same keys.

    Raises:
        ValueError: If the file cannot be read, is empty or is not text, or if a JSON line has neither prompt, source
            nor auxiliary text. The message names the file and the line.
    """
    is_text = plain_text_of(path, "lines") is not None
    if is_text and whole:
        text = "".join(line for _, line in numbered_lines(path))
        if not text.strip():
            raise ValueError(f"{path} is empty: it needs the text of a prompt")
        return [TextPrompt(text)]
    prompts = []
    for number, sample in enumerate(read_samples(path, Words(), fields, plain_text="lines")):
        if is_text:
            prompts.append(TextPrompt(sample.text or "", id=number))
        elif not (sample.model_extra or {}).get("sample"):
            prompts.append(_of_sample(sample, number))
    if is_text and not any(one.prompt.strip() for one in prompts):
        raise ValueError(f"{path} is empty: it needs one prompt per line")
    return prompts


def piped_prompts(text: str, whole: bool = False, fields: Mapping[str, str] | None = None) -> list[TextPrompt]:
    """Reads prompts from ``text``, the content of standard input; otherwise like ``read_prompts``."""
    expect_whole_characters(text, "standard input")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "text"
        file.write_text(text, encoding="utf-8", newline="")
        try:
            return read_prompts(file, whole, fields)
        except ValueError as fault:
            raise ValueError(str(fault).replace(str(file), "standard input")) from None


def _of_sample(sample: Sample, number: int) -> TextPrompt:
    read = {field: getattr(sample, field) for field in FIELDS}
    if all(value is None for value in read.values()):
        keys = ", ".join(sample.model_dump(exclude_unset=True))
        raise ValueError(
            f"{sample.place}: must have one of {', '.join(FIELDS)} ({keys} given); name the right key with "
            f"{either('--field prompt=KEY', 'fields')}"
        )
    if read["source"] is not None and read["prompt"] == read["source"]:
        read["prompt"] = None  # samples of encoder-decoder models have the source in the field ``prompt``
    return TextPrompt(
        prompt=read["prompt"] or "",
        source=read["source"],
        auxiliary=read["auxiliary"],
        references=tuple(sample.references or ()),
        id=number if sample.id is None else sample.id,
    )


# -- Prompts as token ids, after a check that the model can read them and that they are not too long.


def encode_prompts(opened: OpenedModel, prompts: Sequence[TextPrompt], chat: bool = False) -> list[Prompt]:
    """Tokenises prompts for a model.

    A decoder-only model gets a start token and the prompt or, without prompt and auxiliary text, the source. An
    encoder-decoder model gets the source or, without one, the prompt. If ``chat`` is true, this text becomes a user
    message in the tokenizer's chat template.

    Raises:
        ValueError: If a prompt lacks an auxiliary text that the model reads or has no tokens, if both prompt and source
            are given for an encoder-decoder model, or if ``chat`` is true and the tokenizer has no chat template.
    """
    return [_encode(opened, _as_read(opened, prompt), chat) for prompt in prompts]


def _as_read(opened: OpenedModel, prompt: TextPrompt) -> TextPrompt:
    if opened.has_encoder and prompt.source is None:  # an encoder-decoder model reads the text as its source
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
    if not opened.has_encoder and not prompt.prompt and prompt.auxiliary is None:
        return replace(prompt, prompt=prompt.source or "")
    return prompt


def _encode(opened: OpenedModel, prompt: TextPrompt, chat: bool) -> Prompt:
    tokenizer: Any = opened.tokenizer
    start = 0
    if chat:
        context = _chat_ids(tokenizer, prompt.source or "" if opened.has_encoder else prompt.prompt)
    elif opened.has_encoder:
        context = list(tokenizer(prompt.source)["input_ids"])
    else:
        context, start = encode_prompt(tokenizer, prompt.prompt), 1
    if not context:
        raise ValueError(f"prompt {prompt.id}: the source has no tokens; give a text")
    return Prompt(
        context, [], 0, prompt.id, start, prompt.source, prompt.references, text=prompt.prompt,
        auxiliary=prompt.auxiliary,
    )  # fmt: skip


def _chat_ids(tokenizer: Any, said: str) -> list[int]:
    if not tokenizer.chat_template:
        raise ValueError(f"{named('chat')}: tokenizer '{tokenizer.name_or_path}' has no chat template; leave it out")
    turn = [{"role": "user", "content": said}]
    made = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True)
    return list(made["input_ids"])


def expect_room(opened: OpenedModel, encoded: Sequence[Prompt], new: int) -> None:
    """Raises ValueError if the model has too few positions for a prompt or source, or for ``new`` generated tokens."""
    if not opened.has_encoder:
        for one in encoded:
            length, limit = len(one.context), opened.longest
            if limit is not None and length + new - 1 > limit:  # the model does not read the last new token
                room = limit - length + 1
                advice = f"set {named('max_new_tokens')} to at most {room}, or shorten it" if room > 0 else "shorten it"
                if looks_beyond_windows(opened.model):
                    advice += ", or let nextword.inference.scoring.long_text.remember read its beginning"
                raise ValueError(
                    f"prompt {one.number}: its {length} tokens and {new} new ones are more than the model's "
                    f"{limit} positions; {advice}"
                )
        return
    config = opened.model.config
    limit = getattr(encoder_config(config), "max_position_embeddings", None)
    for one in encoded:
        if limit is not None and len(one.context) > limit:
            raise ValueError(
                f"prompt {one.number}: its {len(one.context)} tokens are more than the encoder's {limit} "
                "positions; shorten it"
            )
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and new + 1 > limit:  # the decoder also reads its start token
        raise ValueError(
            f"{named('max_new_tokens')}: must be at most {limit - 1}, the decoder has {limit} positions ({new} given)"
        )
