from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextword.experiments.tasks.tokenizers import trained_tokenizer, word_tokenizer
from nextword.inference.scoring import text_tokens
from nextword.inference.scoring.text_tokens import ids_and_bytes, token_ids
from tests.helpers import text_tokenizers

TEXT = "The cat sat on the mat .\nThe dog sat on the cat , naïvely .\n" * 30
TOKENIZER = trained_tokenizer(TEXT, 300, None)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.text(min_size=1, max_size=60))
def test_bytes_of_tokens_add_up_to_the_text(text: str) -> None:
    ids, counts = ids_and_bytes(TOKENIZER, text)
    assert ids == token_ids(TOKENIZER, text)
    assert counts.sum() == len(text.encode())
    assert len(counts) == len(ids)
    assert (counts >= 0).all()


def test_bytes_by_hand() -> None:
    ids, counts = ids_and_bytes(TOKENIZER, "ï\nThe")
    # ï is two bytes and two tokens or one; whichever, it covers two bytes before the line end.
    texts = [TOKENIZER.decode(ids[:end]) for end in range(1, len(ids) + 1)]
    assert texts[-1] == "ï\nThe"
    ends = np.cumsum(counts)
    for text, end in zip(texts, ends, strict=True):
        if "�" not in text:
            assert end == len(text.encode())


def test_dropped_characters_are_counted() -> None:
    tokenizer = word_tokenizer(["a b"])  # drops spaces and line ends
    ids, counts = ids_and_bytes(tokenizer, "a  b\n\nb \n")
    assert len(ids) == 3
    assert counts.tolist() == [1, 3, 5]


def test_every_text_comes_back() -> None:
    text = "Ωμέγα 漢字 \t\x0c end\r\n\r\n"
    assert TOKENIZER.decode(token_ids(TOKENIZER, text)) == text


@pytest.mark.parametrize("kind", ["byte_level", "trimmed", "t5", "words", "pieces"])
@pytest.mark.parametrize("agreeing", [8, 10_000])
def test_a_text_in_pieces_has_the_tokens_of_the_whole(
    kind: str, agreeing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = getattr(text_tokenizers, kind)()
    monkeypatch.setattr(text_tokens, "AGREEING", agreeing)  # on more than there are: the text as a whole
    draw = random.Random(0)
    text = " ".join(draw.choice(text_tokenizers.TEXTS) for _ in range(60)) + "\n" * 9
    whole = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    lengths: list[int] = []
    one_piece = text_tokens._encoded
    monkeypatch.setattr(text_tokens, "_encoded", lambda *given: lengths.append(len(given[1])) or one_piece(*given))
    for piece in (300, 301, 517):
        monkeypatch.setattr(text_tokens, "PIECE", piece)
        monkeypatch.setattr(text_tokens, "OVERLAP", 200)
        ids, spans = text_tokens.ids_and_spans(tokenizer, text)
        assert ids.tolist() == whole["input_ids"]
        assert spans.tolist() == [list(span) for span in whole["offset_mapping"]]
    assert (max(lengths) == len(text)) == (agreeing > 8)


def test_the_limit_of_a_piece_changes_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    before = token_ids(TOKENIZER, TEXT), ids_and_bytes(TOKENIZER, TEXT)[1].tolist()
    monkeypatch.setattr(text_tokens, "PIECE", 40)
    assert (token_ids(TOKENIZER, TEXT), ids_and_bytes(TOKENIZER, TEXT)[1].tolist()) == before


def test_ids_of_a_whole_text_are_those_of_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = text_tokenizers.t5()
    text = "\n".join(text_tokenizers.TEXTS[:2] * 9)
    for piece in (10_000, 250):
        monkeypatch.setattr(text_tokens, "PIECE", piece)
        monkeypatch.setattr(text_tokens, "OVERLAP", 200)
        assert text_tokens.whole_ids(tokenizer, text).tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
