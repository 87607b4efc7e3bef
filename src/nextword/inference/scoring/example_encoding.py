"""Examples to score, as text and as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from nextword.inference.scoring.likelihood import Inputs, TokenPair
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.text_tokens import Span, expect_offsets, ids_and_spans, start_id
from nextword.settings.config import expect_whole_characters


@dataclass(frozen=True)
class Example:
    """A text to score, with its prompt, source or auxiliary text.

    Attributes:
        text: Text whose tokens are predicted.
        prompt: Text before ``text`` in the decoder. Its tokens are not predicted.
        source: Text that the encoder of an encoder-decoder model reads.
        auxiliary: Auxiliary text of a conditioned model, such as a summary.
        id: Name of the text in results and error messages.

    Raises:
        ValueError: If one of the texts has half a character (an unpaired surrogate).
    """

    text: str
    prompt: str = ""
    source: str | None = None
    auxiliary: str | None = None
    id: str | int = 0

    def __post_init__(self) -> None:
        for text in (self.text, self.prompt, self.source, self.auxiliary):
            expect_whole_characters(text or "", f"example {self.id}")


@dataclass(frozen=True, eq=False)
class Tokens:
    """The N token ids of a text, and the character span (begin, end) of each token; (-1, -1) for a special token."""

    ids: Int[np.ndarray, "N"]
    spans: Int[np.ndarray, "N 2"]

    @property
    def listed(self) -> tuple[list[int], list[Span]]:
        """Ids and spans as lists. Lists need many times the memory of arrays."""
        return self.ids.tolist(), [(begin, end) for begin, end in self.spans.tolist()]

    @classmethod
    def joined(cls, *parts: Tokens) -> Tokens:
        """Concatenates ``parts``, the tokens of several texts."""
        return cls(np.concatenate([one.ids for one in parts]), np.concatenate([one.spans for one in parts]))

    @classmethod
    def special(cls, *ids: int) -> Tokens:
        """Makes the special tokens with these ``ids``. They have no characters."""
        return cls(np.array(ids, dtype=np.int64), np.full((len(ids), 2), -1))


@dataclass(frozen=True)
class TokenizedExample(Example):
    """An example (for a decoder-only model) with known tokens, for instance the first tokens of a longer text."""

    tokens: Tokens = field(kw_only=True)
    """Tokens of the text. The text is not tokenised again."""


@dataclass(frozen=True, eq=False)
class ExampleTokens:
    """The tokens of an example as arrays.

    Attributes:
        context: Tokens that the model reads before the target, see ``example_tokens``.
        target: Tokens of the text, which are predicted.
        specials: Number of start tokens before the prompt in the context; 0 for an encoder-decoder model.
    """

    context: Tokens
    target: Tokens
    specials: int


@dataclass(frozen=True)
class EncodedExample(TokenPair):
    """An example as token ids.

    Attributes:
        spans: Character span of each target token in ``example.text``; (-1, -1) for a special token.
        specials: Number of start tokens before the prompt in the context; 0 for an encoder-decoder model.
        context_spans: Character span of each context token in the prompt or source.
    """

    example: Example
    spans: list[Span]
    specials: int
    context_spans: list[Span] = field(default_factory=list)


def encode_example(opened: OpenedModel, example: Example) -> EncodedExample:
    """Tokenises ``example`` for the model ``opened``, into lists. Raises the errors of ``example_tokens``."""
    found = example_tokens(opened, example)
    context, context_spans = found.context.listed
    target, spans = found.target.listed
    return EncodedExample(context, target, len(example.text.encode()), example, spans, found.specials, context_spans)


def example_tokens(opened: OpenedModel, example: Example) -> ExampleTokens:
    """Tokenises ``example`` for the model ``opened``, into arrays because a text may have millions of tokens.

    For a decoder-only model, the context is a start token and the prompt. If a token would contain characters of both
    prompt and text, prompt and text are tokenised separately. For an encoder-decoder model, the context is the source,
    and the target is the text with the special tokens that the tokenizer adds and with an end token.

    Raises:
        ValueError: If the tokenizer has no offsets, a decoder-only model has no start token, the text has no tokens, or
            an encoder-decoder model gets no source or gets a prompt.
    """
    tokenizer: Any = opened.tokenizer
    if isinstance(example, TokenizedExample):
        context = encode_context(opened, Example("", id=example.id))
        return ExampleTokens(context, example.tokens, len(context.ids))
    if opened.has_encoder:
        context, specials = encode_context(opened, example), 0
        target = _with_specials(tokenizer, text_target=example.text)
        has_text = bool((target.spans[:, 0] >= 0).any())
    else:
        start = encode_context(opened, Example("", id=example.id))
        joined = Tokens(*ids_and_spans(tokenizer, example.prompt + example.text))
        before, after = _parted(joined, len(example.prompt))
        if after is None:
            before, after = (Tokens(*ids_and_spans(tokenizer, text)) for text in (example.prompt, example.text))
        context, target, specials = Tokens.joined(start, before), after, len(start.ids)
        has_text = len(target.ids) > 0
    if not has_text:
        raise ValueError(
            f"example {example.id}: the text has no tokens ({example.text[:40]!r} given); give a longer one"
        )
    end = tokenizer.eos_token_id
    if opened.has_encoder and end is not None and target.ids[-1] != end:
        target = Tokens.joined(target, Tokens.special(end))
    return ExampleTokens(context, target, specials)


def encode_context(opened: OpenedModel, example: Example) -> Tokens:
    """Tokenises the context of ``example``: a start token and the prompt, or for an encoder-decoder model the source.

    Raises:
        ValueError: If the tokenizer has no offsets, a decoder-only model has no start token, or an encoder-decoder
            model gets no source or gets a prompt.
    """
    tokenizer: Any = opened.tokenizer
    expect_offsets(tokenizer, "a token's characters are not known")
    if not opened.has_encoder:
        return Tokens.joined(Tokens.special(start_id(tokenizer)), Tokens(*ids_and_spans(tokenizer, example.prompt)))
    if example.source is None:
        raise ValueError(f"example {example.id}: an encoder-decoder model reads a source, and there is none; give one")
    if example.prompt:
        raise ValueError(f"example {example.id}: an encoder-decoder model takes no prompt; give it as the source")
    return _with_specials(tokenizer, example.source)


def _with_specials(tokenizer: Any, *text: str, **more: str) -> Tokens:
    made = tokenizer(
        *text,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,  # no warning about texts longer than the model; the caller decides what to do with them
        **more,
    )
    spans = np.array(made["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    spans[np.array(made["special_tokens_mask"], dtype=bool)] = -1
    return Tokens(np.array(made["input_ids"], dtype=np.int64), spans)


def _parted(joined: Tokens, cut: int) -> tuple[Tokens, Tokens | None]:
    """The tokens before and after a character. The second is None if a token spans this boundary."""
    # A tokenizer leaves some characters out of its spans, such as the space before a word. They count with the next
    # token. If such a space at the boundary is a token of its own, the token may be on either side.
    ends = np.maximum.accumulate(joined.spans[:, 1])
    count = int(np.searchsorted(ends, cut, side="right"))
    beside = joined.spans[max(count - 1, 0) : count + 1]
    before = Tokens(joined.ids[:count], joined.spans[:count])
    done = ends[count - 1] if count else 0
    if (done < cut and count < len(joined.ids)) or (beside[:, 0] == beside[:, 1]).any():
        return before, None
    return before, Tokens(joined.ids[count:], joined.spans[count:] - cut)


def auxiliary_inputs(opened: OpenedModel) -> Inputs:
    """Returns a function that makes arguments of ``forward`` from the auxiliary texts of a batch of encoded examples.

    If the model has no conditioner, the returned function makes no arguments. Otherwise it raises ValueError if an
    example has no auxiliary text.
    """

    def inputs(examples: Sequence[Any]) -> Mapping[str, Any]:
        if opened.auxiliary_tokenizer is None:
            return {}
        missing = [one.example.id for one in examples if one.example.auxiliary is None]
        if missing:
            raise ValueError(f"example {missing[0]}: the model follows an auxiliary text, and there is none; give one")
        made = opened.auxiliary_tokenizer([str(one.example.auxiliary) for one in examples])
        return {name: tensor.to(opened.model.device) for name, tensor in made.items()}

    return inputs
