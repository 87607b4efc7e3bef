from __future__ import annotations

import pytest

from nextword.evaluation.system_statistics import ranking, wins
from nextword.results.records import Duel, Goal

# F2-Softmax, table 2 (a): WikiText-103, greedy; MS-Jaccard-3, Self-BLEU-3, Distinct-3.
KEYS = ("ppl", "kld", "ms-jaccard", "self-bleu", "distinct", "rep", "uniq")
PAPER = {
    "MLE": (24.7, 2.17, 20.5, 73.2, 57.8, 18.3, 6.23),
    "FACE": (29.7, 1.67, 19.8, 57.3, 62.0, 21.0, 8.03),
    "UL-token": (25.8, 1.88, 20.9, 73.3, 65.6, 12.8, 7.66),
    "UL-token+seq": (27.5, 2.06, 18.4, 74.2, 89.8, 0.3, 8.33),
    "F2-Softmax": (25.6, 1.63, 21.0, 66.3, 63.8, 12.5, 9.08),
}
HUMAN = {"self-bleu": 50.9, "distinct": 95.8, "rep": 0.11, "uniq": 15.2}
GOALS: dict[str, Goal] = {
    "ppl": "lower", "kld": "lower", "ms-jaccard": "higher",
    "self-bleu": "human", "distinct": "human", "rep": "human", "uniq": "human",
}  # fmt: skip
# Table 9 (a), the ten duels on WikiText-103: winner, loser, score.
PUBLISHED = (
    ("F2-Softmax", "MLE", 6, 1), ("F2-Softmax", "FACE", 6, 1), ("F2-Softmax", "UL-token", 6, 1),
    ("F2-Softmax", "UL-token+seq", 5, 2), ("FACE", "MLE", 4, 3), ("UL-token", "FACE", 4, 3),
    ("UL-token+seq", "FACE", 4, 3), ("UL-token", "MLE", 5, 2), ("UL-token+seq", "MLE", 4, 3),
    ("UL-token", "UL-token+seq", 4, 3),
)  # fmt: skip


def table() -> dict[str, dict[str, float]]:
    return {name: dict(zip(KEYS, row, strict=True)) for name, row in PAPER.items()}


def score(duels: list[Duel], winner: str, loser: str) -> tuple[int, int]:
    for duel in duels:
        if (duel.first, duel.second) == (winner, loser):
            return duel.won, duel.lost
        if (duel.first, duel.second) == (loser, winner):
            return duel.lost, duel.won
    raise AssertionError


@pytest.mark.parametrize(("winner", "loser", "won", "lost"), PUBLISHED)
def test_duels_of_the_paper(winner: str, loser: str, won: int, lost: int) -> None:
    assert score(wins(table(), GOALS, HUMAN).duels, winner, loser) == (won, lost)


def test_ranking() -> None:
    ranking = wins(table(), GOALS, HUMAN).ranking
    assert [(place.rank, place.name, place.wins, place.losses) for place in ranking] == [
        (1, "F2-Softmax", 4, 0), (2, "UL-token", 3, 1), (3, "UL-token+seq", 2, 2), (4, "FACE", 1, 3), (5, "MLE", 0, 4),
    ]  # fmt: skip


def test_a_ranking_among_some_leaves_duels_with_others_out() -> None:
    duels = wins(table(), GOALS, HUMAN).duels
    among = ranking(duels, ["MLE", "FACE", "F2-Softmax"])
    assert [(place.rank, place.name, place.wins, place.losses) for place in among] == [
        (1, "F2-Softmax", 2, 0),
        (2, "FACE", 1, 1),
        (3, "MLE", 0, 2),
    ]


def test_order_of_the_systems_does_not_matter() -> None:
    there, back = wins(table(), GOALS, HUMAN), wins(dict(reversed(table().items())), GOALS, HUMAN)
    assert [(p.rank, p.name) for p in there.ranking] == [(p.rank, p.name) for p in back.ranking]


def test_measures_without_a_human_value_or_a_goal_do_not_vote() -> None:
    values = {"a": {"x": 1.0, "y": 2.0, "z": 3.0}, "b": {"x": 2.0, "y": 1.0, "z": 9.0}}
    found = wins(values, {"x": "lower", "y": "human"}, {})
    assert found.measures == ["x"]
    assert (found.duels[0].won, found.duels[0].lost) == (1, 0)


def test_ties_are_counted_and_share_a_rank() -> None:
    found = wins({"a": {"x": 1.0}, "b": {"x": 1.0}, "c": {"x": 2.0}}, {"x": "lower"}, {})
    assert found.duels[0].tied == 1
    assert [(place.rank, place.name) for place in found.ranking] == [(1, "a"), (1, "b"), (3, "c")]


def test_only_the_chosen_vote() -> None:
    found = wins(table(), GOALS, HUMAN, ["ppl"])
    assert found.measures == ["ppl"]
    assert found.ranking[0].name == "MLE"


def test_rounding_decides_no_tie() -> None:
    found = wins({"x": {"rep": 0.3}, "y": {"rep": 0.1}}, {"rep": "human"}, {"rep": 0.2})
    assert found.duels[0].tied == 1
