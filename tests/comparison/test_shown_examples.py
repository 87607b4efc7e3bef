"""What is marked in a text to be read."""

from __future__ import annotations

import numpy as np

from nextword.comparison.shown_examples import marked_text
from nextword.tasks.parts.bpe import trained_tokenizer


def test_rare_tokens_are_marked_and_characters_stay_whole():
    tokenizer = trained_tokenizer("a b c " * 20, 260, None)
    ids = tokenizer("ab뷁c!")["input_ids"]
    assert len(ids) == 7  # three bytes of one character
    rare = np.zeros(260, dtype=bool)
    rare[ids[3]] = True
    found = marked_text("someone", ids, rare, tokenizer)
    assert [(span.text, span.very_rare) for span in found.spans] == [("ab", False), ("뷁", True), ("c!", False)]
    assert found.very_rare == 1 / 7
    cut = marked_text("someone", ids[:4], rare, tokenizer)
    assert [(span.text, span.very_rare) for span in cut.spans] == [("ab", False), ("\N{REPLACEMENT CHARACTER}", True)]
    assert marked_text("someone", [], rare, tokenizer).very_rare == 0
    assert marked_text("someone", [300], rare[:3], tokenizer).very_rare == 1


def test_rare_words_are_told_by_repetition_and_case():
    """As in F2-Softmax's table 4: very rare, of these the repeated ones and those that are no names."""
    tokenizer = trained_tokenizer("a b c " * 20, 260, None)

    def marked(text, rare_letters):
        ids = tokenizer(text)["input_ids"]
        rare = np.zeros(260, dtype=bool)
        rare[[token for token in ids if tokenizer.decode([token]).strip() in set(rare_letters)]] = True
        return marked_text("someone", ids, rare, tokenizer).spans

    named = marked("Zed saw a zebra", "Zz")
    assert [(span.text, span.lower_case) for span in named if span.very_rare] == [("Z", False), ("z", True)]
    inner = marked("O'Zed hew-Zed", "Z")  # a word is what its first letter makes it
    assert [span.lower_case for span in inner if span.very_rare] == [False, True]
    again = marked("xaxbaa", "x")
    assert [(span.text, span.very_rare, span.repeated) for span in again] == [
        ("x", True, False), ("a", False, False), ("x", True, True), ("baa", False, False),
    ]  # fmt: skip
    assert not any(span.repeated for span in marked("aaa", ""))


def test_copied_words_are_marked_and_not_the_space_before_them():
    tokenizer = trained_tokenizer("b a c " * 20, 300, None)
    nothing = np.zeros(300, dtype=bool)

    def marked(text, source):
        spans = marked_text("someone", tokenizer(text)["input_ids"], nothing, tokenizer, source).spans
        return [(span.text, span.copied) for span in spans]

    assert marked("b b a c b", "x B a, c y") == [("b", False), (" b a c", True), (" b", False)]
    assert marked("b a", "b a") == [("b a", False)]
    assert marked("b a c b", "c b a c b") == [("b a c b", True)]
    assert marked("b a c", "b a x c") == [("b a c", False)]
