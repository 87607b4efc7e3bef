from __future__ import annotations

from collections import Counter

import pytest

from nextword.runtime.corpora.gap_sentences import GapConfig, Pair, by_overlap, gap_pairs, sentences


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One here. Two here! Three?", ["One here.", "Two here!", "Three?"]),
        ("He left . She stayed .", ["He left .", "She stayed ."]),
        ('"Go!" he said. (It rained.) Then 3 came.', ['"Go!" he said.', "(It rained.)", "Then 3 came."]),
        ("He said \u201cGo.\u201d She went.", ["He said \u201cGo.\u201d", "She went."]),
        (
            "By J. R. R. Smith of the U.S. Army, i.e. him. Yes.",
            ["By J. R. R. Smith of the U.S. Army, i.e. him.", "Yes."],
        ),
        (
            "It was No. 1 of Vol. 2 for Mrs. Hay. St. Ives won. No",
            ["It was No. 1 of Vol. 2 for Mrs. Hay.", "St. Ives won.", "No"],
        ),
        ("3.5 m of it ... and so on. End", ["3.5 m of it ... and so on.", "End"]),
        ("一つ目です。二つ目です！「三つ目。」四", ["一つ目です。", "二つ目です！", "「三つ目。」", "四"]),
        ("  \n ", []),
    ],
)
def test_sentences(paragraph, expected):
    assert sentences(paragraph) == expected


def f1(one, rest):
    shared = sum((Counter(one) & Counter(rest)).values())
    precision, recall = shared / len(one), shared / len(rest)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


def test_overlap_is_the_largest_rouge_1_f1_with_the_rest():
    parts = ["a a b e f", "b b b a", "a k l", "x y z"]
    split = [part.split() for part in parts]
    scores = [f1(one, [w for j, other in enumerate(split) if j != i for w in other]) for i, one in enumerate(split)]
    assert by_overlap(parts, "") == scores.index(max(scores))
    assert len(set(scores)) > 2
    assert by_overlap(list(reversed(parts)), "") == list(reversed(scores)).index(max(scores))


def test_every_long_paragraph_gives_a_pair():
    text = "Heading\n\nA dog ran. A cat saw the dog. Cat sat.\nOnly two. Not three.\n"
    assert list(gap_pairs(text, GapConfig(), 0)) == [Pair("A dog ran. <mask> Cat sat.", "A cat saw the dog.")]
    two = list(gap_pairs(text, GapConfig(min_sentences=2), 0))
    assert [pair.text for pair in two] == ["A dog ran. A cat saw the dog. Cat sat.", "Only two. Not three."]


def test_a_block_is_the_lines_up_to_an_empty_one():
    text = "A dog ran. A cat\nsaw the dog. Cat\nsat.\n \n\nNext. One. More."
    assert list(gap_pairs(text, GapConfig(), 0)) == [Pair("<mask> One. More.", "Next.")]
    first, second = gap_pairs(text, GapConfig(paragraph="block"), 0)
    assert first == Pair("A dog ran. <mask> Cat sat.", "A cat saw the dog.")
    assert second.text == "Next. One. More."


def test_long_paragraphs_are_cut_evenly():
    text = " ".join(f"N{number} x." for number in range(10))
    pairs = list(gap_pairs(text, GapConfig(max_sentences=4), 0))
    assert [len(sentences(pair.text)) for pair in pairs] == [3, 3, 4]
    assert " ".join(pair.text for pair in pairs) == text


def test_random_gaps_depend_on_seed_and_paragraph_only():
    text = "\n".join(" ".join(f"W{line} s{place}." for place in range(6)).replace(" s", " S") for line in range(40))
    config = GapConfig(choose="random")
    one = [pair.target for pair in gap_pairs(text, config, 0)]
    assert one == [pair.target for pair in gap_pairs(text, config, 0)]
    assert one != [pair.target for pair in gap_pairs(text, config, 1)]
    assert one[20:] == [pair.target for pair in gap_pairs("\n".join(text.split("\n")[20:]), config, 0)]
    assert len({target.split()[1] for target in one}) > 3
