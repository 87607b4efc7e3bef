"""What a model is asked about, as text and as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nextword.scoring.opened_model import OpenedModel
from nextword.scoring.prompt_encoding import start_id
from nextword.scoring.target_likelihood import Inputs, TokenPair


@dataclass(frozen=True)
class Example:
    """A text whose tokens a model predicts, and what it reads before or beside it.

    Attributes:
        text: What is predicted.
        prompt: What stands before it in the decoder and is not predicted.
        source: What an encoder-decoder model reads.
        auxiliary: What the encoder of a conditioned model reads, such as the summary of the text.
        id: Tells it from others.
    """

    text: str
    prompt: str = ""
    source: str | None = None
    auxiliary: str | None = None
    id: str | int = 0


@dataclass(frozen=True)
class EncodedExample(TokenPair):
    """An example as token ids.

    Attributes:
        example: The text.
        spans: For each target token, where in ``example.text`` its characters begin and end; (-1, -1) at a special
            token.
        specials: Special tokens at the beginning of the context, such as a start token.
    """

    example: Example
    spans: list[tuple[int, int]]
    specials: int


def encode_example(opened: OpenedModel, example: Example) -> EncodedExample:
    """The example in tokens of a model.

    A decoder-only model reads a start token and the prompt. An encoder-decoder model reads the source; its target has
    the special tokens that its tokenizer puts around a text, and an end token.

    Raises:
        ValueError: The tokenizer cannot say which characters a token covers, the text has no tokens, or something is
            missing that the model reads.
    """
    tokenizer: Any = opened.tokenizer
    if not tokenizer.is_fast:
        raise ValueError(
            f"tokenizer '{tokenizer.name_or_path}' has no offsets (it is a slow one), so a token's characters are not "
            "known. Use its fast version."
        )
    if opened.has_encoder:
        return _from_source(opened, example)
    first = [start_id(tokenizer)]
    whole = tokenizer(example.prompt + example.text, add_special_tokens=False, return_offsets_mapping=True)
    cut = len(example.prompt)
    count = sum(begin < cut for begin, _ in whole["offset_mapping"])
    spans, ids = whole["offset_mapping"][count:], whole["input_ids"]
    if count and whole["offset_mapping"][count - 1][1] > cut:  # a token has characters of both; each side by itself
        prompt = tokenizer(example.prompt, add_special_tokens=False)["input_ids"]
        alone = tokenizer(example.text, add_special_tokens=False, return_offsets_mapping=True)
        count, spans, ids, cut = len(prompt), alone["offset_mapping"], [*prompt, *alone["input_ids"]], 0
    if not ids[count:]:
        raise ValueError(f"example {example.id}: the text has no tokens ({example.text[:40]!r} given)")
    return EncodedExample(
        context=[*first, *ids[:count]],
        target=list(ids[count:]),
        target_bytes=len(example.text.encode()),
        example=example,
        spans=[(begin - cut, end - cut) for begin, end in spans],
        specials=len(first),
    )


def _from_source(opened: OpenedModel, example: Example) -> EncodedExample:
    tokenizer: Any = opened.tokenizer
    if example.source is None:
        raise ValueError(f"example {example.id}: an encoder-decoder model reads a source, and there is none; give one")
    if example.prompt:
        raise ValueError(f"example {example.id}: an encoder-decoder model takes no prompt; give it as the source")
    target = tokenizer(text_target=example.text, return_offsets_mapping=True, return_special_tokens_mask=True)
    ids = list(target["input_ids"])
    spans = [
        (-1, -1) if special else (int(begin), int(end))
        for (begin, end), special in zip(target["offset_mapping"], target["special_tokens_mask"], strict=True)
    ]
    if all(begin < 0 for begin, _ in spans):
        raise ValueError(f"example {example.id}: the text has no tokens ({example.text[:40]!r} given)")
    end = tokenizer.eos_token_id
    if end is not None and ids[-1] != end:
        ids, spans = [*ids, end], [*spans, (-1, -1)]
    return EncodedExample(
        context=list(tokenizer(example.source)["input_ids"]),
        target=ids,
        target_bytes=len(example.text.encode()),
        example=example,
        spans=spans,
        specials=0,
    )


def auxiliary_inputs(opened: OpenedModel) -> Inputs:
    """Further inputs of the model for a batch of encoded examples: their auxiliary texts, where it follows one."""

    def inputs(examples: Sequence[EncodedExample]) -> Mapping[str, Any]:
        if opened.auxiliary_tokenizer is None:
            return {}
        missing = [one.example.id for one in examples if one.example.auxiliary is None]
        if missing:
            raise ValueError(f"example {missing[0]}: the model follows an auxiliary text, and there is none; give one")
        made = opened.auxiliary_tokenizer([str(one.example.auxiliary) for one in examples])
        return {name: tensor.to(opened.model.device) for name, tensor in made.items()}

    return inputs
