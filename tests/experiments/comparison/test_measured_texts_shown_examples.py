"""What is marked in a text to be read."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nextword.experiments.comparison.measured_texts import marked_text, written_examples
from nextword.experiments.tasks.tokenizers import trained_tokenizer

SOURCE = "The old mayor of Bern opened a bridge."
TEXT = "She says the old mayor of Bern sleeps."
REFERENCE = "A new bridge."


@pytest.fixture
def setting(tmp_path: Path) -> SimpleNamespace:
    tokenizer = trained_tokenizer(f"{SOURCE} {TEXT} " * 9, 300, None)
    ids = {text: tokenizer(text)["input_ids"] for text in (TEXT, REFERENCE)}
    line = {
        "prompt": SOURCE, "source": SOURCE, "text": TEXT, "token_ids": ids[TEXT],
        "references": [REFERENCE], "reference_token_ids": [ids[REFERENCE]],
    }  # fmt: skip
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    way = SimpleNamespace(title="beam 4", is_sampled=False)
    return SimpleNamespace(
        task=SimpleNamespace(writes=SimpleNamespace(texts=SimpleNamespace(decodings=(way,), examples=1))),
        start=SimpleNamespace(counts=None, tokenizer=tokenizer),
        config=SimpleNamespace(seeds=[0]),
        folder=SimpleNamespace(path=tmp_path),
    )


def test_words_copied_from_the_source_are_marked_and_none_is_rare_where_nothing_was_counted(setting):
    run = SimpleNamespace(seed=0, method="softmax", samples={"beam 4": ["a.jsonl"]})
    [example] = written_examples(setting, [run])
    human, text = example.texts
    assert [(span.text, span.copied) for span in text.spans] == [
        ("She says", False), (" the old mayor of Bern", True), (" sleeps.", False),
    ]  # fmt: skip
    assert "".join(span.text for span in human.spans) == REFERENCE
    assert not any(span.copied for span in human.spans)
    assert text.very_rare == human.very_rare == 0


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
