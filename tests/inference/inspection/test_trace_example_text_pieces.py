"""Pieces that make the text when they are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nextword.inference.inspection.trace_example import pieces_of_ids, pieces_of_spans
from nextword.inference.scoring.example_encoding import Example, encode_example
from tests.helpers.opened_models import decoder, encoder_decoder
from tests.helpers.text_tokenizers import TEXTS, byte_level, trimmed, words


@pytest.mark.parametrize("kind", [byte_level, trimmed, words])
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_of_a_text_are_the_text(kind: Callable[[], Any], text: str) -> None:
    encoded = encode_example(decoder(kind()), Example(text, prompt=TEXTS[0]))
    pieces = pieces_of_spans(text, encoded.spans)
    assert len(pieces) == len(encoded.target)
    assert "".join(pieces) == text
    assert "".join(pieces_of_spans(TEXTS[0], encoded.context_spans)) == TEXTS[0]
    if kind is byte_level:  # every token that is text by itself is its own piece
        decoded = [byte_level().decode([token]) for token in encoded.target]
        assert all(piece == text for piece, text in zip(pieces, decoded, strict=True) if "\ufffd" not in text)


@pytest.mark.parametrize("family", ["bart", "t5"])
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_of_a_target_and_of_its_source_are_the_texts(family: str, text: str) -> None:
    encoded = encode_example(encoder_decoder(family), Example(text, source=text))
    for spans in (encoded.spans, encoded.context_spans):
        pieces = pieces_of_spans(text, spans)
        assert "".join(pieces) == text
        assert all(not piece for piece, span in zip(pieces, spans, strict=True) if span == (-1, -1))


def test_characters_of_several_tokens_stand_at_the_first() -> None:
    encoded = encode_example(decoder(byte_level()), Example("a🙂b"))
    pieces = pieces_of_spans("a🙂b", encoded.spans)
    assert [piece for piece in pieces if piece] == ["a", "🙂", "b"]
    assert pieces[1] == "🙂"


def test_what_no_token_covers_goes_to_the_next_one_and_at_the_end_to_the_last() -> None:
    assert pieces_of_spans("\n a  b\n", [(2, 3), (5, 6)]) == ["\n a", "  b\n"]
    assert pieces_of_spans(" ", [(-1, -1)]) == [" "]
    assert pieces_of_spans("", [(-1, -1)]) == [""]
    assert pieces_of_spans("", []) == []


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_of_tokens_that_came_first_are_those_of_their_text(text: str) -> None:
    encoded = encode_example(decoder(byte_level()), Example(text, prompt=TEXTS[0]))
    expected = pieces_of_spans(text, encoded.spans)
    assert pieces_of_ids(byte_level(), encoded.target, encoded.context) == expected
    assert pieces_of_ids(byte_level(), encoded.target) == expected


def test_bytes_that_make_no_character_are_shown_where_they_end() -> None:
    smile = byte_level()("🙂", add_special_tokens=False)["input_ids"]
    pieces = pieces_of_ids(byte_level(), [*smile[:-1], byte_level().eos_token_id])
    assert len(pieces) == len(smile)
    assert set("".join(pieces)) == {"\ufffd"}
    assert pieces_of_ids(byte_level(), []) == []
