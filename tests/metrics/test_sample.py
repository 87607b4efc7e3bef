from __future__ import annotations

import pytest

from nextword.metrics import MissingFieldError, Sample
from nextword.metrics.units import GivenIds, Words, split


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
    with pytest.raises(MissingFieldError, match="line 3: 'references' is empty, and this needs it"):
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
    with pytest.raises(ValueError, match="line 9: has a text without token ids"):
        _ = mixed.tokens


def test_ids_among_words_are_an_error() -> None:
    mixed = Sample.model_validate({"text": "a", "token_ids": [3]}).bound("x.jsonl, line 9", Words())
    with pytest.raises(ValueError, match="line 9: has token ids, the first sample has none"):
        _ = mixed.tokens


def test_ids_that_no_tokenizer_has_are_refused() -> None:
    with pytest.raises(ValueError, match="less than 9223372036854775808"):
        sample(token_ids=[2**63])


def test_words_of_any_script() -> None:
    assert split("정말 재미있는 영화!") == ["정말", "재미있는", "영화", "!"]
    assert split(" \n") == []
    assert split("a_b 3.5") == ["a_b", "3", ".", "5"]
