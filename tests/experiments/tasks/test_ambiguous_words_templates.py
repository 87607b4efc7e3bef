from __future__ import annotations

from collections import Counter

from nextword.experiments.tasks.ambiguous_words import WORDINGS, AmbiguousPrompt, prompts, sample

PAIRS = [("Paris", "France"), ("Rome", "Italy"), ("Oslo", "Norway")]


def test_prompts_by_hand() -> None:
    found = prompts(PAIRS[:2], "places")
    # one quadruple x 2 diagonals x 4 templates x 2 orders
    assert len(found) == len({prompt.text for prompt in found}) == 16
    assert Counter(frozenset(p.words) for p in found) == {
        frozenset({"Paris", "Italy"}): 8,
        frozenset({"France", "Rome"}): 8,
    }
    for prompt in found:
        assert set(prompt.words) | set(prompt.competitors) == {"Paris", "France", "Rome", "Italy"}
        first, second = (prompt.text.index(word) for word in prompt.words)
        assert first < second
        assert not any(word in prompt.text for word in prompt.competitors)


def test_no_prompt_occurs_twice() -> None:
    found = prompts(PAIRS, "places")
    assert len(found) == len({prompt.text for prompt in found}) == 3 * 16


def test_every_slot_follows_a_word_or_a_space() -> None:
    for wording, groups in WORDINGS.items():
        for template in (template for group in groups.values() for template in group):
            assert template.count("{}") == 2
            before = template.split("{}")[:2]
            assert all(text.endswith(" ") for text in before)
            assert wording == "paper" or all(text.strip() for text in before)


def test_what_the_paper_prints_is_among_its_wording() -> None:
    found = {prompt.text for prompt in prompts([("Houston", "Texas"), ("Erie", "Pennsylvania")], "places", "paper")}
    assert " Houston and Pennsylvania are my favorites, and I especially love" in found
    family = {p.text for p in prompts([("king", "queen"), ("man", "woman")], "people", "paper")}
    assert "After debating whether to bow to the woman or the king, the jester decided to bow to the" in family
    assert len(found) == len(family) == 16


def test_sample_is_even_over_groups_repeatable_and_capped() -> None:
    many = [AmbiguousPrompt(f"p{i}", "places", ("a", "b"), ("c", "d")) for i in range(50)]
    few = [AmbiguousPrompt(f"q{i}", "people", ("a", "b"), ("c", "d")) for i in range(4)]
    chosen = sample([*many, *few], 20, seed=1)
    assert Counter(prompt.group for prompt in chosen) == {"places": 16, "people": 4}
    assert len(set(chosen)) == 20
    assert chosen == sample([*many, *few], 20, seed=1)
    assert chosen != sample([*many, *few], 20, seed=2)
    assert len(sample(few, 100, seed=0)) == 4
