"""What of an answer is certain, and what a stop leaves of it."""

from __future__ import annotations

from typing import Any

import pytest

from nextword.serving.http.completions import WrittenAnswer
from tests.helpers.text_tokenizers import byte_level

TOKENIZER: Any = byte_level()


def ids(text: str) -> list[int]:
    found: list[int] = TOKENIZER(text).input_ids
    return found


def written(text: str, *stops: str) -> WrittenAnswer:
    """An answer to "The king", up to its end or a stop."""
    answer = WrittenAnswer(TOKENIZER, ids("The king"), stops)
    for token in ids(text):
        answer.add(token)
        if answer.finished:
            break
    return answer


def test_the_end_of_the_text_waits_where_a_stop_begins_with_it() -> None:
    answer = written(" sat.", ".\n")
    assert answer.text == " sat."
    assert "".join(answer.pieces[: answer.certain]) == " sat"
    answer.end(())
    assert answer.certain == len(answer.ids)
    assert "".join(answer.pieces) == " sat."


@pytest.mark.parametrize(
    ("text", "stops", "left"),
    [
        (" sat.\n on", (".\n",), " sat"),
        (" sat on the throne.", ("on", "sat on"), " "),
        (" sat on the throne.", ("throne", " on"), " sat"),
        (" שלום", ("ל",), " ש"),
    ],
)
def test_the_first_stop_ends_the_text_before_it(text: str, stops: tuple[str, ...], left: str) -> None:
    answer = written(text, *stops)
    assert (answer.text, answer.finished) == (left, "stop")


def test_a_stop_in_the_prompt_ends_nothing() -> None:
    answer = WrittenAnswer(TOKENIZER, ids("The king"), ["king"], echoes=True)
    answer.add(ids(" sat")[0])
    assert (answer.text, answer.finished) == ("The king sat", None)
    assert (answer.before, answer.written) == ([], 1)


def test_why_an_answer_ends() -> None:
    for ends, why in (([ids("x")[0]], "stop"), ([], "length")):
        answer = written("x")
        answer.end(ends)
        assert answer.finished == why


def test_half_a_character_is_shown_at_the_end_alone() -> None:
    first, *_ = ids("€")
    answer = WrittenAnswer(TOKENIZER, ids("The king"))
    answer.add(first)
    assert answer.text == ""
    answer.end(())
    assert answer.text == "\N{REPLACEMENT CHARACTER}"
