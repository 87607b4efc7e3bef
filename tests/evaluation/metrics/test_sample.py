from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, Sample
from nextword.evaluation.metrics.cider import _CUTS
from nextword.evaluation.metrics.rouge import RougeTokenizer
from nextword.evaluation.metrics.tokens import GivenIds, Words, split
from nextword.runtime.corpora.words import letters
from nextword.runtime.corpora.words import words as copied_words


def sample(**fields: object) -> Sample:
    unit = GivenIds() if "token_ids" in fields or "reference_token_ids" in fields else Words()
    return Sample.model_validate(fields).bound("x.jsonl, line 3", unit)


def test_words_are_numbered_over_all_texts_of_a_unit() -> None:
    one = sample(text="b a b", prompt="a", references=["c b"])
    assert one.tokens.tolist() == [0, 1, 0]
    assert one.prompt_tokens.tolist() == [1]
    assert [ids.tolist() for ids in one.reference_tokens] == [[2, 0]]


def test_given_ids_come_before_text() -> None:
    one = sample(text="b a b", token_ids=[7, 8], reference_token_ids=[[9]], references=["a"])
    assert one.tokens.tolist() == [7, 8]
    assert [ids.tolist() for ids in one.reference_tokens] == [[9]]


@pytest.mark.parametrize("field", ["text", "references", "prompt", "source", "log_probs", "table"])
def test_absent_fields_name_line_and_keys(field: str) -> None:
    with pytest.raises(MissingFieldError, match=rf"x\.jsonl, line 3: no '{field}', which this needs.*The line has: id"):
        sample(id=1).need(field, "this")


def test_no_reference_is_an_absent_reference() -> None:
    with pytest.raises(MissingFieldError, match="'references'"):
        sample(text="a", references=[]).need("references", "this")


def test_an_empty_text_is_a_text() -> None:
    assert sample(text="").need("text", "this") == ""
    assert sample(text="").tokens.tolist() == []


def test_human_row_has_the_first_reference_as_text() -> None:
    human = sample(text="x", prompt="p", source="s", references=["a b", "c"], reference_token_ids=[[1], [2]]).as_human()
    assert (human.text, human.references, human.prompt, human.source) == ("a b", ["c"], "p", "s")
    assert human.tokens.tolist() == [1]
    assert [ids.tolist() for ids in human.reference_tokens] == [[2]]
    alone = sample(text="x", references=["a b"]).as_human()
    assert (alone.text, alone.references) == ("a b", ["a b"])
    with pytest.raises(MissingFieldError, match="which the human row needs"):
        sample(text="x").as_human()


def test_text_without_ids_among_ids_is_an_error() -> None:
    mixed = Sample.model_validate({"text": "a"}).bound("x.jsonl, line 9", GivenIds())
    with pytest.raises(ValueError, match="9: must have token ids for every text"):
        _ = mixed.tokens


def test_ids_among_words_are_an_error() -> None:
    mixed = Sample.model_validate({"text": "a", "token_ids": [3]}).bound("x.jsonl, line 9", Words())
    with pytest.raises(ValueError, match="9: must have no token ids"):
        _ = mixed.tokens


def test_ids_that_no_tokenizer_has_are_refused() -> None:
    with pytest.raises(ValueError, match="less than 9223372036854775808"):
        sample(token_ids=[2**63])


def test_words_of_any_script() -> None:
    assert split("정말 재미있는 영화!") == ["정말", "재미있는", "영화", "!"]
    assert split(" \n") == []
    assert split("a_b 3.5") == ["a_b", "3", ".", "5"]


WITH_MARKS = {
    "Hindi": ("नमस्ते दुनिया, यह अच्छी है।", ["नमस्ते", "दुनिया", ",", "यह", "अच्छी", "है", "।"]),
    "Thai": ("สวัสดีครับ หนังเรื่องนี้", ["สวัสดีครับ", "หนังเรื่องนี้"]),
    "accents apart": (unicodedata.normalize("NFD", "Café déjà!"), ["Cafe\u0301", "de\u0301ja\u0300", "!"]),
    "Korean": ("정말 좋았다!", ["정말", "좋았다", "!"]),
    "Korean letters apart": (
        unicodedata.normalize("NFD", "정말 좋았다!"),
        [unicodedata.normalize("NFD", word) for word in ("정말", "좋았다", "!")],
    ),
    # The emoji of a heart is a symbol and a mark: one piece, and no part of the word after it.
    "emoji": ("a\u2764\ufe0fb", ["a", "\u2764\ufe0f", "b"]),
    "a mark alone": (" \u0300 a", ["\u0300", "a"]),
}


@pytest.mark.parametrize("name", WITH_MARKS)
def test_combining_marks_belong_to_the_character_before_them(name: str) -> None:
    text, pieces = WITH_MARKS[name]
    assert split(text) == pieces
    words = [piece for piece in pieces if piece[0].isalnum()]
    assert letters(text) == words
    assert copied_words(text) == RougeTokenizer(unicode=True).tokenize(text) == [word.lower() for word in words]
    assert _CUTS["words"](text) == [word.lower() for word in words]


def test_words_of_cider_keep_apostrophes_and_underscores() -> None:
    assert _CUTS["words"]("It isn't a_b, नहीं’है") == ["it", "isn't", "a_b", "नहीं’है"]
    assert letters("a_b नमस्ते_२") == ["a", "b", "नमस्ते", "२"]


@given(st.text(alphabet=st.characters(exclude_categories=("M", "Cs"))))
def test_texts_without_marks_are_cut_by_a_plain_pattern(text: str) -> None:
    assert split(text) == re.findall(r"\w+|[^\w\s]", text)
    assert letters(text) == re.findall(r"[^\W_]+", text)


@given(st.text(alphabet=st.sampled_from("aक_ ்ि\u0301\ufe0f1.❤")))
def test_nothing_is_lost_and_words_begin_with_a_letter(text: str) -> None:
    assert "".join(split(text)) == "".join(text.split())
    by_category = "".join(
        char if char.isalnum() or (unicodedata.category(char)[0] == "M" and before) else " "
        for char, before in zip(text, _inside_words(text), strict=True)
    )
    assert letters(text) == by_category.split()


def _inside_words(text: str) -> list[bool]:
    """For each character, whether it stands behind a letter and marks only."""
    found, inside = [], False
    for char in text:
        found.append(inside)
        inside = char.isalnum() or (inside and unicodedata.category(char)[0] == "M")
    return found


def test_units_order_ids_whatever_was_read_first() -> None:
    ids = np.array([2, 0, 1])
    assert GivenIds().order(ids).tolist() == [1, 2, 0]
    for text in ("c a b", "b c a"):
        unit = Words()
        unit.ids(text)
        assert [text.split()[ids[place]] for place in unit.order(ids)] == ["a", "b", "c"]
    assert Words().order(np.array([5, 3])).tolist() == [1, 0]  # never read: by id


PREDICTED = {
    "target_token_ids": [1, 2],
    "predicted_token_ids": [3, 3],
    "log_probs": [-1.0, -1.0],
    "target_ranks": [1, 0],
}


def test_targets_are_their_own_prediction_and_nothing_is_known_of_their_probability() -> None:
    human = Sample.model_validate({"text": "a", "reference": "b", **PREDICTED}).as_human()
    assert (human.text, human.target_token_ids, human.predicted_token_ids) == ("b", [1, 2], [1, 2])
    assert (human.log_probs, human.target_ranks) == (None, None)


def test_targets_need_no_references() -> None:
    human = Sample.model_validate(PREDICTED).as_human()
    assert (human.text, human.predicted_token_ids) == (None, [1, 2])
    with pytest.raises(MissingFieldError, match="'references'"):
        Sample.model_validate({"text": "a"}).as_human()
