from __future__ import annotations

from nextword.inference.scoring.breakdowns import NewAndRepeated
from tests.helpers.token_rows import token_row

NEW, TEXT, SOURCE, AUXILIARY, FAR = range(5)


def groups(*args, **kwargs) -> list[int]:
    return NewAndRepeated().codes(token_row(*args, **kwargs)).tolist()


def test_what_stood_before_is_repeated() -> None:
    assert groups([5, 6, 5, 7, 7]) == [NEW, NEW, TEXT, NEW, TEXT]


def test_the_prompt_stands_before_the_text_and_the_start_token_does_not() -> None:
    assert groups([5, 6, 1], prompt=[6]) == [NEW, TEXT, NEW]


def test_what_the_model_no_longer_sees_is_too_far_back() -> None:
    # the last 5 before the third token is at 0, before the fourth at 2
    assert groups([5, 6, 5, 5, 6], visible=[0, 0, 1, 2, 2]) == [NEW, NEW, FAR, TEXT, FAR]


def test_a_source_goes_before_the_text() -> None:
    assert groups([5, 6, 5, 7], auxiliary=[5, 6]) == [AUXILIARY, AUXILIARY, AUXILIARY, NEW]
    assert groups([5, 6, 5, 7, 7], source=[6]) == [NEW, SOURCE, TEXT, NEW, TEXT]


def test_special_tokens_are_apart() -> None:
    row = token_row([5, 5])
    row.is_special[1] = True
    found = NewAndRepeated()
    assert [found.names[code] for code in found.codes(row)] == ["new", "special tokens"]
