from __future__ import annotations

import pytest
from tokenizers.processors import TemplateProcessing

from nextword.experiments.tasks.pair_task import PairEncoder
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.runtime.corpora.gap_sentences import MASK, Pair

TEXT = "the dog saw the cat and the cat saw the dog . the end is near , said the man with the dog ."


@pytest.fixture(scope="module")
def tokenizer():
    return trained_tokenizer(TEXT, 290, None, MASK)


@pytest.fixture
def framing():
    """One that puts two tokens before a text and one, which is no end of sequence, after it."""
    made = trained_tokenizer(TEXT, 290, None, MASK)
    made._tokenizer.post_processor = TemplateProcessing(
        single="<eos> <mask> $A <pad>", special_tokens=[("<eos>", 0), ("<pad>", 1), ("<mask>", 2)]
    )
    return made


def test_both_sides_end_with_the_end_of_the_sequence(tokenizer):
    [pair] = PairEncoder(tokenizer, 64, 64)([Pair("the dog saw", "the cat")])
    for side, text in ((pair.source, "the dog saw"), (pair.target, "the cat")):
        assert side.ids == [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        assert side.text == text
    assert pair.target.starts[0] == 0
    assert pair.target.starts[-1] == -1


def test_a_tokenizer_puts_its_own_tokens_around(framing):
    [pair] = PairEncoder(framing, 64, 64)([Pair("the dog", "the cat")])
    assert pair.source.ids == [*framing("the dog")["input_ids"], 0]
    assert pair.source.starts[:2] == pair.source.starts[-2:] == [-1, -1]
    [short] = PairEncoder(framing, 64, 8)([Pair("the dog", "the cat saw " * 20)])
    assert len(short.target.ids) == 8
    assert short.target.ids[-2:] == [1, 0]


def test_what_is_cut_off_is_not_in_the_text(tokenizer):
    target = "the dog saw the cat"
    [pair] = PairEncoder(tokenizer, 64, 9)([Pair("x", target * 9)])
    assert len(pair.target.ids) == 9
    assert pair.target.ids[-1] == tokenizer.eos_token_id
    assert tokenizer.decode(pair.target.ids, skip_special_tokens=True) == pair.target.text
    assert (target * 9).startswith(pair.target.text)
    assert pair.target.text


def test_the_gap_becomes_the_mask_of_the_tokenizer(tokenizer):
    encoder = PairEncoder(tokenizer, 64, 64)
    [pair] = encoder([Pair("the dog . <mask> the end", "the cat")])
    assert pair.source.ids.count(tokenizer.mask_token_id) == 1
    other = PairEncoder(tokenizer, 64, 64, mask="[gap]", prefix="fill: ")
    [pair] = other([Pair("the dog . <mask> the end", "the cat")])
    assert tokenizer.mask_token_id not in pair.source.ids
    assert pair.source.text == "fill: the dog . [gap] the end"
    assert other.visible_text(pair.source) == "the dog .   the end"


def test_bad_tokenizers():
    without = trained_tokenizer(TEXT, 290, None)
    with pytest.raises(ValueError, match=r"task\.mask: tokenizer"):
        PairEncoder(without, 64, 64)([Pair("a <mask>", "b")])
    assert PairEncoder(without, 64, 64)([Pair("a", "b")])
    without.eos_token = None
    with pytest.raises(ValueError, match="must have an end-of-sequence token"):
        PairEncoder(without, 64, 64)


def test_t5_marks_gaps_by_its_first_sentinel():
    made = trained_tokenizer(TEXT, 290, None)
    made.add_tokens(["<extra_id_0>"], special_tokens=True)
    [pair] = PairEncoder(made, 64, 64)([Pair("the dog <mask>", "the cat")])
    assert made.convert_tokens_to_ids("<extra_id_0>") in pair.source.ids
