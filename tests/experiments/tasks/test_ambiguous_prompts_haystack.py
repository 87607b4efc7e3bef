from __future__ import annotations

import re

import pytest

from nextword.experiments.tasks.ambiguous_prompts import QUESTIONS, Haystack, documents, first_names
from nextword.experiments.tasks.ambiguous_words import AmbiguousPrompt, embedded, prompts

PAIRS = {
    "places": [(f"Town{n}", f"Land{n}") for n in range(8)],
    "people": [(f"he{n}", f"she{n}") for n in range(8)],
}


def some(group: str, count: int = 60) -> list[AmbiguousPrompt]:
    return prompts(PAIRS[group], group)[::7][:count]


def test_nothing_is_added_where_nothing_is_asked_for() -> None:
    asked = some("places")
    assert Haystack().hide(asked, PAIRS, seed=0, training=True) == asked


@pytest.mark.parametrize("group", ["places", "people"])
@pytest.mark.parametrize("pairs", [2, 4])
def test_the_question_is_about_the_statement_with_the_right_words(group: str, pairs: int) -> None:
    asked = some(group)
    for before, after in zip(asked, Haystack(pairs=pairs).hide(asked, PAIRS, 0, training=False), strict=True):
        assert (after.words, after.competitors) == (before.words, before.competitors)
        *statements, question = re.split(r"(?<=\.) ", after.text)
        assert len(statements) == pairs
        names = [next(name for name in first_names() if name in one) for one in statements]
        assert len(set(names)) == pairs
        (name,) = [name for name in first_names() if name in question]
        (about,) = [one for one in statements if name in one]
        # both words, in the order of the template
        first, second = (about.index(word) for word in after.words)
        assert first < second
        elsewhere = " ".join(one for one in statements if one != about)
        assert not any(re.search(rf"\b{word}\b", elsewhere) for word in (*after.words, *after.competitors))


def test_other_pairs_with_an_asked_word_are_left_out() -> None:
    pairs = {"places": [*PAIRS["places"], ("Town9", "Land0")]}
    asked = [prompt for prompt in prompts(pairs["places"], "places") if "Land0" in prompt.words]
    for prompt in Haystack(pairs=6).hide(asked, pairs, 0, training=False):
        assert prompt.text.count("Land0") == 1


def test_stories_stand_among_the_statements_and_never_name_who_is_asked_about() -> None:
    asked = some("places")
    hidden = Haystack(pairs=2, distractors=3).hide(asked, PAIRS, 0, training=False)
    places = set()
    for prompt in hidden:
        (name,) = [one for one in first_names() if one in prompt.text[prompt.text.rindex(". ") :]]
        assert prompt.text.count(name) == 2
        assert all(len(re.findall(rf"\b{word}\b", prompt.text)) == 1 for word in prompt.words)
        places.add(prompt.text.index(name) < 20)
    assert places == {True, False}
    assert len({prompt.text for prompt in hidden}) == len(hidden)


def test_repeatable_and_of_the_seed() -> None:
    asked, haystack = some("people"), Haystack(pairs=2, distractors=1, noise=0.5)
    first = haystack.hide(asked, PAIRS, 0, training=True)
    assert first == haystack.hide(asked, PAIRS, 0, training=True)
    assert first != haystack.hide(asked, PAIRS, 1, training=True)
    # what is around a prompt does not depend on the others
    assert first[5:] == haystack.hide(asked[5:], PAIRS, 0, training=True)


def test_noise_gives_training_prompts_words_that_they_do_not_hold() -> None:
    asked, haystack = prompts(PAIRS["places"], "places"), Haystack(noise=0.3)
    trained = haystack.hide(asked, PAIRS, 0, training=True)
    wrong = [one for one, before in zip(trained, asked, strict=True) if one.words != before.words]
    assert len(wrong) / len(asked) == pytest.approx(0.3, abs=0.07)
    for prompt in wrong:
        assert len(set(prompt.words)) == 2
        assert not any(word in prompt.text or word in prompt.competitors for word in prompt.words)
    assert haystack.hide(asked, PAIRS, 0, training=False) == asked


def test_too_few_other_words() -> None:
    with pytest.raises(ValueError, match=r"task.pairs:.*\(7 given"):
        Haystack(pairs=7).hide(some("places", 1), PAIRS, 0, training=False)


def test_too_few_other_pairs_for_a_story() -> None:
    pairs = {group: some[:3] for group, some in PAIRS.items()}  # two of them make a prompt
    asked = prompts(pairs["people"], "people")[:1]
    with pytest.raises(ValueError, match=r"task.distractors:.*\(2 given"):
        Haystack(distractors=2).hide(asked, pairs, 0, training=False)


def test_the_small_start_has_read_every_word_of_the_questions() -> None:
    known = set(re.findall(r"\w+", " ".join(documents(embedded(), 5000, seed=0))))
    for group in QUESTIONS.values():
        for sentence in (sentence for together in group for sentence in together):
            assert set(re.findall(r"\w+", sentence.format("", "", n=""))) <= known
