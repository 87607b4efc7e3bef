from __future__ import annotations

from nextword.runtime.corpora.words import copied_stretches

SOURCE = "The old mayor of Bern opened a bridge on Monday. Nobody came, he said."


def copied(text: str, least: int = 3) -> list[str]:
    return [text[begin:end] for begin, end in copied_stretches(text, SOURCE, least)]


def test_runs_are_as_long_as_they_can_be() -> None:
    assert copied("Nobody came, HE SAID, when the old mayor of Bern slept.") == [
        "Nobody came, HE SAID",
        "the old mayor of Bern",
    ]


def test_runs_that_follow_each_other_in_the_text_but_not_in_the_source_are_two() -> None:
    assert copied("the old mayor nobody came he") == ["the old mayor", "nobody came he"]
    assert copied("a bridge on mayor of Bern") == ["a bridge on", "mayor of Bern"]


def test_what_is_too_short_is_not_copied() -> None:
    assert copied("old mayor opened a of") == []
    assert copied("old mayor opened a of", least=2) == ["old mayor", "opened a"]
    assert copied("") == copied("one two") == []
