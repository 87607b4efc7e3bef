from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextword.tasks.parts.bpe import ids_and_bytes, token_ids, trained_tokenizer
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


def test_kept_tokenizer_is_used_again(tmp_path: Path) -> None:
    first = trained_tokenizer(TEXT, 280, tmp_path)
    (kept,) = tmp_path.iterdir()
    assert trained_tokenizer(TEXT, 280, tmp_path).get_vocab() == first.get_vocab()
    stamp = kept.stat().st_mtime_ns
    trained_tokenizer(TEXT, 280, tmp_path)
    assert kept.stat().st_mtime_ns == stamp
    trained_tokenizer(TEXT + "more", 280, tmp_path)
    trained_tokenizer(TEXT, 290, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_too_small_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"task.vocabulary: must be at least 258"):
        trained_tokenizer(TEXT, 100, None)
