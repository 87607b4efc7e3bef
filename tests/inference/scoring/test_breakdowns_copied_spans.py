from __future__ import annotations

import numpy as np
import pytest

from nextword.inference.scoring.breakdowns import CopiedSpans
from tests.helpers.token_rows import token_row

NOT, FIRST, TEXT, SOURCE, AUXILIARY = range(5)


def groups(n: int, *args, **kwargs) -> list[int]:
    return CopiedSpans(n).codes(token_row(*args, **kwargs)).tolist()


def test_a_span_is_copied_from_its_second_token_on() -> None:
    assert groups(3, [5, 6, 7, 8, 5, 6, 7, 9]) == [NOT, NOT, NOT, NOT, FIRST, TEXT, TEXT, NOT]
    assert groups(3, [5, 6, 8, 5, 6, 9]) == [NOT] * 6
    assert groups(2, [5, 6, 8, 5, 6, 9]) == [NOT, NOT, NOT, FIRST, TEXT, NOT]


def test_a_repeated_token_copies_itself() -> None:
    assert groups(2, [5, 5, 5, 5]) == [NOT, FIRST, TEXT, TEXT]


def test_spans_begin_in_the_prompt_too() -> None:
    assert groups(3, [7, 9], prompt=[5, 6, 7, 8, 5, 6]) == [TEXT, NOT]


def test_spans_that_the_model_no_longer_sees_are_not_copied() -> None:
    text = [5, 6, 7, 8, 5, 6, 7, 9]
    assert groups(3, text, visible=[0, 0, 0, 0, 0, 0, 0, 4]) == [NOT, NOT, NOT, NOT, FIRST, TEXT, TEXT, NOT]
    assert groups(3, text, visible=[0, 0, 0, 0, 0, 0, 1, 1]) == [NOT] * 8


def test_a_source_goes_before_the_text() -> None:
    assert groups(2, [5, 6, 5, 6, 5], source=[5, 6]) == [FIRST, SOURCE, FIRST, SOURCE, TEXT]
    assert groups(2, [5, 6, 7], auxiliary=[9, 5, 6]) == [FIRST, AUXILIARY, NOT]


def test_no_span_reaches_from_one_text_into_the_next() -> None:
    assert groups(2, [5, 6, 7], source=[9, 5], auxiliary=[6, 7]) == [NOT, FIRST, AUXILIARY]
    assert groups(2, [5, 6], source=[6, 5]) == [NOT, NOT]
    assert groups(3, [5]) == [NOT]


def by_hand(n: int, prompt: list[int], target: list[int], visible: list[int], auxiliary: list[int]) -> list[int]:
    """The definition, token by token: the strongest span that holds a token and the one before it."""
    stream, begin = [*prompt, *target], len(prompt)
    of_auxiliary = {tuple(auxiliary[at : at + n]) for at in range(len(auxiliary) - n + 1)}

    def kinds(at: int) -> set[int]:
        gram, end = tuple(stream[at : at + n]), at + n - 1
        sees = visible[end - begin] if end >= begin else 0
        earlier = any(tuple(stream[other : other + n]) == gram for other in range(sees, at))
        return ({TEXT} if earlier else set()) | ({AUXILIARY} if gram in of_auxiliary else set())

    found = []
    for place in range(begin, len(stream)):
        begins = [at for at in range(place - n + 1, place + 1) if 0 <= at <= len(stream) - n]
        goes_on = {kind for at in begins if at < place for kind in kinds(at)}
        starts = bool(kinds(place)) if place in begins else False
        found.append(max(goes_on) if goes_on else FIRST if starts else NOT)
    return found


@pytest.mark.parametrize("n", [2, 3, 4])
def test_random_texts_as_the_definition_says(n: int) -> None:
    rng = np.random.default_rng(n)
    seen = set()
    for _ in range(200):
        prompt, target, auxiliary = (rng.integers(0, 3, rng.integers(low, 12)).tolist() for low in (0, 1, 0))
        visible = np.minimum(np.sort(rng.integers(0, 12, len(target))), len(prompt)).tolist()
        found = groups(n, target, prompt=prompt, visible=visible, auxiliary=auxiliary)
        assert found == by_hand(n, prompt, target, visible, auxiliary)
        seen |= set(found)
    assert seen == {NOT, FIRST, TEXT, AUXILIARY}
