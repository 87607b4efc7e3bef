from __future__ import annotations

from pathlib import Path

import pytest

from nextword.experiments.tasks.ambiguous_words import PRONOUNS, Relation, embedded, from_analogies, split_pairs
from tests.helpers.real_data import real_data


def test_embedded_words_are_single_and_unique_within_the_lexicon() -> None:
    lexicon = embedded()
    words = [word for relation in lexicon.relations for pair in relation.pairs for word in pair]
    assert len(words) == len(set(words)) == len(lexicon.words())
    assert all(word.isalpha() for word in words)
    assert sum(len(relation.pairs) for relation in lexicon.relations) >= 120


def test_split_deals_every_pair_out_once_and_is_repeatable() -> None:
    for relation in embedded().relations:
        split = split_pairs(relation, (0.5, 0.15), seed=3)
        dealt = [*split.train, *split.validation, *split.test]
        assert sorted(dealt) == sorted(relation.pairs)
        assert split == split_pairs(relation, (0.5, 0.15), seed=3)
        assert split != split_pairs(relation, (0.5, 0.15), seed=4)


def test_split_does_not_depend_on_the_order_of_the_file() -> None:
    relation = embedded().relations[0]
    turned = Relation(relation.name, relation.group, tuple(reversed(relation.pairs)))
    assert split_pairs(relation, (0.5, 0.2), 0) == split_pairs(turned, (0.5, 0.2), 0)


def test_pairs_that_share_a_word_stay_together() -> None:
    pairs = [(f"city{i}", f"state{i % 3}") for i in range(12)] + [(f"a{i}", f"b{i}") for i in range(20)]
    pairs += [("city0", "a0")]  # and through it state0 with a0 and b0
    for seed in range(5):
        split = split_pairs(Relation("city", "places", tuple(pairs)), (0.5, 0.2), seed)
        words = [{w for pair in part for w in pair} for part in (split.train, split.validation, split.test)]
        assert not words[0] & words[1] | words[0] & words[2] | words[1] & words[2]
        assert sorted([*split.train, *split.validation, *split.test]) == sorted(pairs)


def test_sizes_are_as_asked_where_no_word_is_shared() -> None:
    relation = Relation("r", "places", tuple((f"a{i}", f"b{i}") for i in range(100)))
    split = split_pairs(relation, (0.5, 0.15), 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (50, 15, 35)


def test_too_few_pairs_for_a_part() -> None:
    relation = Relation("tiny", "places", (("a", "b"), ("c", "d"), ("e", "f")))
    with pytest.raises(ValueError, match="'validation'"):
        split_pairs(relation, (0.7, 0.1), 0)


def write(folder: Path, text: str) -> Path:
    path = folder / "questions-words.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_analogy_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ": capital-common-countries\nAthens Greece Oslo Norway\n: currency\nEurope euro Japan yen\n"
        "  : capital-world\nOslo Norway Rome Italy\n\n: family\nboy girl he she\nking queen boy girl\n",
    )
    found = {relation.name: (relation.group, set(relation.pairs)) for relation in from_analogies(path).relations}
    assert found == {
        "capital": ("places", {("Athens", "Greece"), ("Oslo", "Norway"), ("Rome", "Italy")}),
        "family": ("people", {("boy", "girl"), ("king", "queen")}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b c d\n", r"questions-words.txt:1: a section must come before"),
        (
            ": family\nboy girl king\n",
            r"questions-words.txt:2: must have four words 'a b c d' .3 given: 'boy girl king'",
        ),
        (": currency\nEurope euro Japan yen\n", r"must have at least one of the sections capital-common-countries"),
        ("", r"must have at least one of the sections"),
    ],
)
def test_malformed_analogy_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_analogies(write(tmp_path, text))


def test_missing_or_binary_analogy_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"task.analogies: cannot read"):
        from_analogies(tmp_path / "nowhere.txt")
    (tmp_path / "binary").write_bytes(b": family\n\xff\xfe")
    with pytest.raises(ValueError, match=r"UTF-8 text \(byte"):
        from_analogies(tmp_path / "binary")


def test_google_file() -> None:
    lexicon = from_analogies(real_data("google-analogies/questions-words.txt"))
    sizes = {relation.name: len(relation.pairs) for relation in lexicon.relations}
    # 116 capitals contain the 23 common ones; 23 family pairs without he/she and his/her.
    assert sizes == {"capital": 116, "city": 68, "family": 21}
    assert not PRONOUNS & set(lexicon.words())
