from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextword.evaluation.metrics import MissingFieldError, UndefinedError
from nextword.evaluation.metrics.frequency_groups import NAMES, frequency_groups, tokens_per_group
from nextword.evaluation.metrics.ngrams import TokenTexts
from nextword.evaluation.metrics.tokens import CountedTokens, Words
from tests.helpers.measuring import KOREAN, Vocabulary, korean_reviews, measured, values

COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)
SHARES = ("share-frequent", "share-medium", "share-rare", "share-very-rare")


def by_walking(counts: list[int], percent: tuple[int, ...]) -> list[int]:
    """One token after another, the most frequent first; whole numbers only. Boundaries are in percent."""
    group_of, before = [len(percent)] * len(counts), 0
    for token in sorted(range(len(counts)), key=lambda token: (-counts[token], token)):
        if counts[token]:
            group_of[token] = sum(100 * before >= share * sum(counts) for share in percent)
        before += counts[token]
    return group_of


@given(COUNTS, st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True))
def test_against_walking(counts: list[int], percent: list[int]) -> None:
    ends = tuple(sorted(percent))
    assert frequency_groups(counts, [share / 100 for share in ends]).tolist() == by_walking(counts, ends)


def test_by_hand() -> None:
    # Of 10: 4 | 3 | 2 | 1. The first ends right at 40 %, the second at 70 %, the third at 90 %: one in each group.
    assert frequency_groups([1, 4, 3, 2, 0]).tolist() == [3, 0, 1, 2, 3]
    # Of 10: 6 begins at 0 and reaches over 40 %: upper group. 3 begins at 60 %: medium, over 70 %. 1 begins at 90 %.
    assert frequency_groups([6, 3, 1]).tolist() == [0, 1, 3]
    # All equal: the lower id comes first. Ten tokens of 10 % each.
    assert frequency_groups([5] * 10).tolist() == [0] * 4 + [1] * 3 + [2] * 2 + [3]


@pytest.mark.parametrize("total", [10, 1000, 10**6, 3 * 10**9])
def test_boundaries_are_exact(total: int) -> None:
    # 0.7 as a float is a little below seven tenths, and 0.1 + 0.2 above three: neither moves a token.
    counts = [7 * total // 10, 2 * total // 10, total // 10]
    assert frequency_groups(counts, (0.7, 0.9)).tolist() == [0, 1, 2]


@given(COUNTS, st.integers(1, 1000))
def test_only_proportions_matter_and_frequent_tokens_are_above(counts: list[int], factor: int) -> None:
    found = frequency_groups(counts)
    assert found.tolist() == frequency_groups([count * factor for count in counts]).tolist()
    assert all(found[a] <= found[b] for a in range(len(counts)) for b in range(len(counts)) if counts[a] > counts[b])


@given(COUNTS)
def test_counted_text_falls_into_its_own_groups(counts: list[int]) -> None:
    text = np.repeat(np.arange(len(counts)), counts)
    per_group = tokens_per_group(TokenTexts.of([text]), frequency_groups(counts), 4)[0]
    mass = np.cumsum(per_group) / per_group.sum()
    assert mass[0] >= 0.4 - 1e-12  # a token that crosses goes up, so no group ends before its boundary
    assert mass[1] >= 0.7 - 1e-12
    assert mass[2] >= 0.9 - 1e-12


def test_references_are_counted_where_nothing_else_is_given() -> None:
    # Human tokens: 1 x4, 2 x3, 3 x2, 4 x1: groups 0, 1, 2, 3. Written: 1 1 4 | 2 9 | nothing.
    references = [[[1, 1, 1, 1, 2]], [[2, 2, 3], [3, 4]], [[]]]
    written = [[1, 1, 4], [2, 9], []]
    samples = [{"token_ids": ids, "reference_token_ids": human} for ids, human in zip(written, references, strict=True)]
    scores = measured("frequency-groups", samples, Vocabulary())
    assert [scores[key].value for key in SHARES] == pytest.approx([2 / 5, 1 / 5, 0, 2 / 5])
    assert scores["vr"].value == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (scores["share-rare"].n, scores["vr"].n) == (5, 2)
    assert "the references" in scores["vr"].measure.unit
    assert all(score.statistic is not None and len(score.statistic.parts) == 3 for score in scores.values())


def test_values_do_not_depend_on_what_was_read_first(tmp_path: Path) -> None:
    # 40 words of the references come once, so the boundaries fall between words of equal counts.
    words = [f"w{number:02}" for number in np.random.default_rng(0).permutation(40)]
    one = [{"text": " ".join(words[at : at + 9]), "reference": " ".join(words[at : at + 8])} for at in range(0, 40, 8)]
    other = [{"text": " ".join(words[at::7]), "reference": sample["reference"]} for at, sample in enumerate(one)]
    corpus = tmp_path / "train.txt"
    corpus.write_text("\n".join(sample["reference"] for sample in one), encoding="utf-8")
    for setting in ({"metric": "frequency-groups"}, {"metric": "frequency-groups", "corpus": str(corpus)}):
        alone = values(setting, one, Words())
        assert 0 < alone["share-medium"] < 1
        first, second = Words(), Words()
        beside = [values(setting, one, first), values(setting, other, first)]
        turned = [values(setting, other, second), values(setting, one, second)]
        assert beside[0] == alone
        assert turned == beside[::-1]
        assert values(setting, one[::-1], Words()) == pytest.approx(alone, abs=1e-15)


def test_human_row_has_the_shares_of_the_groups() -> None:
    samples = [{"token_ids": [9], "reference_token_ids": [[1, 1, 1, 1, 2, 2, 2, 3, 3, 4]]}]
    found = values("frequency-groups", samples, Vocabulary(), human=True)
    assert [found[key] for key in SHARES] == [0.4, 0.3, 0.2, 0.1]


def test_counts_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "train.npy"
    np.save(path, np.array([0, 4, 3, 2, 1]))
    setting = {"metric": "frequency-groups", "counts": str(path)}
    scores = measured(setting, [{"token_ids": [1, 2, 2, 0, 77]}], Vocabulary())
    assert [scores[key].value for key in SHARES] == pytest.approx([1 / 5, 2 / 5, 0, 2 / 5])
    assert "train.npy" in scores["vr"].measure.unit
    with pytest.raises(ValueError, match=r"frequency-groups\.counts"):
        measured(setting, [{"text": "a b"}])


def test_counts_from_a_corpus_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.txt"
    path.write_text("영화 영화 영화 영화\n정말 정말 정말\n좋았다 좋았다 보고\n", encoding="utf-8")
    setting = {"metric": "frequency-groups", "corpus": str(path)}
    unit = Words()
    samples = [{"text": "정말 영화 보고 처음"}]
    found = values(setting, samples, unit)
    assert [found[key] for key in SHARES] == [0.25, 0.25, 0, 0.5]
    opened: list[str] = []
    original = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self, *rest, **more: (opened.append(self.name), original(self, *rest, **more))[1]
    )
    assert values(setting, samples, unit) == found
    assert opened == []
    path.write_text("처음\n", encoding="utf-8")
    assert values(setting, samples, unit)["share-very-rare"] == 0.75
    assert "train.txt" in opened


def test_special_tokens_are_no_text() -> None:
    sample = {"token_ids": [0, 1, 0, 0], "reference_token_ids": [[0, 0, 1]]}
    assert values("frequency-groups", [sample], Vocabulary(special=[0]))["share-frequent"] == 1


def test_other_boundaries() -> None:
    samples = [{"token_ids": [1, 2], "reference_token_ids": [[1] * 9 + [2]]}]
    setting = {"metric": "frequency-groups", "boundaries": (0.1, 0.2, 0.3)}
    scores = measured(setting, samples, Vocabulary())
    assert [scores[key].value for key in SHARES] == [0.5, 0, 0, 0.5]
    assert "10 to 20 % of the references" in scores["share-medium"].measure.meaning


def test_korean() -> None:
    samples = [{"text": text, "reference": text} for text in KOREAN]
    found = values("frequency-groups", samples)
    assert sum(found[key] for key in SHARES) == pytest.approx(1)
    reviews = korean_reviews(200)
    real = values("frequency-groups", [{"text": text, "reference": text} for text in reviews])
    assert [real[key] for key in SHARES] == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=0.01)


@pytest.mark.parametrize(
    "content", [np.zeros(3, dtype=int), np.array([1.5]), np.ones((2, 2), dtype=int), np.array([-1, 2])]
)
def test_bad_counts(content: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "counts.npy"
    np.save(path, content)
    with pytest.raises(ValueError, match=r"frequency-groups.counts: '.*counts.npy' must"):
        measured({"metric": "frequency-groups", "counts": str(path)}, [])


def test_bad_files(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("\n\n", encoding="utf-8")
    for setting, message in (
        ({"counts": str(text)}, "counts: cannot read"),
        ({"counts": str(tmp_path / "none.npy")}, "counts: cannot read"),
        ({"corpus": str(tmp_path / "none.txt")}, "corpus: cannot count"),
        ({"corpus": str(text)}, "must have at least one token"),
        ({"corpus": str(text), "counts": "x.npy"}, "counts, corpus: must not both be given"),
    ):
        with pytest.raises(ValueError, match=message):
            measured({"metric": "frequency-groups", **setting}, [])
    text.write_text("some words", encoding="utf-8")
    with pytest.raises(ValueError, match=r"corpus:.*tokenizer"):
        measured({"metric": "frequency-groups", "corpus": str(text)}, [], Vocabulary())


def test_errors() -> None:
    with pytest.raises(UndefinedError, match="must have token frequencies"):
        measured("frequency-groups", [{"token_ids": [1]}], Vocabulary())
    with pytest.raises(MissingFieldError, match="'references'"):
        measured("frequency-groups", [{"text": "a", "reference": "a"}, {"text": "b"}])
    with pytest.raises(UndefinedError, match="frequent tokens"):
        measured("frequency-groups", [{"text": "", "reference": "a"}])
    for boundaries in ((0.7, 0.4, 0.9), (0.4, 0.4, 0.9), (0.0, 0.4, 0.9), (0.4, 0.7, 1.0), (0.4, 0.7, float("nan"))):
        with pytest.raises(ValueError, match="boundaries"):
            measured({"metric": "frequency-groups", "boundaries": boundaries}, [])
    for counts in ([], [0], [3, -1]):
        with pytest.raises(ValueError, match="list of numbers of 0 or more"):
            frequency_groups(counts)
    with pytest.raises(ValueError, match="token ids must be 0 or more"):
        tokens_per_group(TokenTexts.of([[-1]]), np.array([0]), 4)


def test_places_of_counted_tokens() -> None:
    counts = CountedTokens.of({9: 1, 4: 2}, "a text")
    assert counts.places(np.array([4, 9, 5, 0, 10])).tolist() == [0, 1, 2, 2, 2]
    assert len(NAMES) == len(SHARES)
