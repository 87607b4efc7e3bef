"""Examples as token ids: where prompt and text are cut, which characters a token has, what stands around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nextword.inference.scoring.example_encoding import (
    EncodedExample,
    Example,
    auxiliary_inputs,
    encode_context,
    encode_example,
)
from tests.helpers import text_tokenizers
from tests.helpers.opened_models import conditioned, decoder, encoder_decoder
from tests.helpers.text_tokenizers import TEXTS, byte_level, trimmed, words

DECODERS = [byte_level, trimmed, words]


def spanned(encoded: EncodedExample) -> list[str]:
    """What the spans of the target cut out of the text; None for special tokens."""
    return [encoded.example.text[begin:end] for begin, end in encoded.spans if begin >= 0]


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_alone_follows_a_start_token(kind: Callable[[], Any], text: str) -> None:
    opened = decoder(kind())
    encoded = encode_example(opened, Example(text))
    assert encoded.context == [opened.tokenizer.bos_token_id]
    assert encoded.target == opened.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert encoded.target_bytes == len(text.encode())
    assert encoded.context_spans == [(-1, -1)]
    assert len(encoded.spans) == len(encoded.target)
    for token, (begin, end) in zip(encoded.target, encoded.spans, strict=True):
        piece = opened.tokenizer.decode([token])
        assert "\ufffd" in piece or piece.strip() == text[begin:end].strip() or piece == opened.tokenizer.unk_token


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("text", TEXTS)
def test_wherever_prompt_and_text_are_cut_no_token_has_characters_of_both(kind: Callable[[], Any], text: str) -> None:
    opened = decoder(kind())
    whole = opened.tokenizer(text, add_special_tokens=False)["input_ids"]
    for cut in range(len(text)):
        example = Example(text[cut:], prompt=text[:cut])
        if kind is words and not text[cut:].strip():
            continue  # it has no tokens
        encoded = encode_example(opened, example)
        context = encoded.context[1:]
        sides = [opened.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text[:cut], text[cut:])]
        assert context + encoded.target == whole or [context, encoded.target] == sides
        assert all(0 <= begin <= end <= len(example.text) for begin, end in encoded.spans)
        assert all(0 <= begin <= end <= cut for begin, end in encoded.context_spans[1:])
        if kind is not words:
            assert opened.tokenizer.decode(context) == text[:cut]
            assert opened.tokenizer.decode(encoded.target) == text[cut:]


def test_a_space_that_belongs_to_a_token_is_of_its_side() -> None:
    for kind in (byte_level, trimmed):
        opened = decoder(kind())
        inside = encode_example(opened, Example("king sat", prompt="The "))
        assert opened.tokenizer.decode(inside.context[1:]) == "The "
        assert opened.tokenizer.decode(inside.target) == "king sat"
        before = encode_example(opened, Example(" king sat", prompt="The"))
        assert opened.tokenizer.decode(before.target) == " king sat"
        assert len(before.target) == 2


def test_bytes_of_one_character_have_its_span() -> None:
    encoded = encode_example(decoder(byte_level()), Example("a🙂b"))
    assert len(encoded.target) > 4
    assert encoded.spans == [(0, 1), *[(1, 2)] * (len(encoded.target) - 2), (2, 3)]


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_text_without_tokens_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="7: the text has no tokens"):
        encode_example(decoder(words()), Example(text, prompt="The king", id=7))
    with pytest.raises(ValueError, match="7: the text has no tokens"):
        encode_example(encoder_decoder("t5"), Example(text, source="The king", id=7))


@pytest.mark.parametrize("family", ["bart", "t5"])
@pytest.mark.parametrize("text", TEXTS)
def test_an_encoder_decoder_reads_the_source_and_ends_the_target(family: str, text: str) -> None:
    opened = encoder_decoder(family)
    encoded = encode_example(opened, Example(text, source="The king sat."))
    tokenizer = opened.tokenizer
    assert encoded.context == tokenizer("The king sat.")["input_ids"]
    assert encoded.target == tokenizer(text)["input_ids"]
    assert encoded.target[-1] == tokenizer.eos_token_id
    assert encoded.specials == 0
    special = [span == (-1, -1) for span in encoded.spans]
    assert special == [False] * len(special[1:]) + [True] if family == "t5" else special[0] and special[-1]
    assert sum(special) == {"bart": 2, "t5": 1}[family]
    if family == "bart":
        assert set("".join(spanned(encoded))) == set(text)


def test_a_target_gets_the_end_that_its_tokenizer_does_not_write() -> None:
    opened = replace(encoder_decoder("bart"), tokenizer=byte_level())
    encoded = encode_example(opened, Example("king", source="The"))
    assert encoded.target[-1] == byte_level().eos_token_id
    assert encoded.spans[-1] == (-1, -1)
    assert encode_context(opened, Example("", source="The")).ids.tolist() == encoded.context


def test_what_a_model_reads_must_be_there() -> None:
    with pytest.raises(ValueError, match="encoder-decoder"):
        encode_example(encoder_decoder("t5"), Example("king", id="a"))
    with pytest.raises(ValueError, match="encoder-decoder"):
        encode_example(encoder_decoder("t5"), Example("king", source="x", prompt="y"))
    opened = conditioned("softmax")
    with pytest.raises(ValueError, match="auxiliary"):
        auxiliary_inputs(opened)([encode_example(opened, Example("king", id="a"))])


def test_an_auxiliary_text_is_read_where_a_model_follows_one() -> None:
    opened = conditioned("softmax+ce")
    made = auxiliary_inputs(opened)([encode_example(opened, Example("king", auxiliary="The throne."))])
    assert set(made) == {"aux_input_ids", "aux_attention_mask", "source_ids", "source_positions"}
    assert made["source_ids"][0].tolist() == opened.tokenizer("The throne.")["input_ids"]
    plain = decoder(byte_level())
    assert auxiliary_inputs(plain)([encode_example(plain, Example("king", auxiliary="x"))]) == {}


def test_a_slow_tokenizer_is_refused() -> None:
    class Slow:
        is_fast = False
        name_or_path = "slow"

    with pytest.raises(ValueError, match="tokenizer 'slow' has no offsets"):
        encode_example(replace(decoder(byte_level()), tokenizer=Slow()), Example("x"))  # type: ignore[arg-type]


def test_every_kind_of_tokenizer_is_asked() -> None:
    assert {kind.__name__ for kind in DECODERS} | {"bart", "t5", "pieces"} == {
        name for name, made in vars(text_tokenizers).items() if hasattr(made, "cache_info")
    }


@pytest.mark.parametrize(
    "given", [{"text": "b \ud83d"}, {"text": "", "prompt": "\udcff"}, {"text": "", "source": "\ude00"}]
)
def test_half_a_character_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="characters"):
        Example(**given, id=7)
