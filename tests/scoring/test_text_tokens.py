from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nextword.scoring.text_tokens import ids_and_bytes, token_ids
from nextword.tasks.parts.bpe import trained_tokenizer
from nextword.tasks.parts.word_tokenizer import word_tokenizer

TEXT = "The cat sat on the mat .\nThe dog sat on the cat , naïvely .\n" * 30
TOKENIZER = trained_tokenizer(TEXT, 300, None)


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
