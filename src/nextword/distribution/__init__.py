"""The NextToken distribution, its five kinds, and one over scores that are there already."""

from nextword.distribution.factorized import ClassDraw, Factorized, TokenClasses
from nextword.distribution.mixtures import Interpolated, Mixture, OnMemory
from nextword.distribution.next_token import NextToken
from nextword.distribution.score_edits import Add, Change, Edit, OnWords, Replace, Rerank
from nextword.distribution.scores import KnownScores, Scores
from nextword.distribution.vocabulary import Shifted, Vocabulary
from nextword.functional.entries import Entries, Retrieved, UniqueTokens, WordScores

__all__ = [
    "Add",
    "Change",
    "ClassDraw",
    "Edit",
    "Entries",
    "Factorized",
    "Interpolated",
    "KnownScores",
    "Mixture",
    "NextToken",
    "OnMemory",
    "OnWords",
    "Replace",
    "Rerank",
    "Retrieved",
    "Scores",
    "Shifted",
    "TokenClasses",
    "UniqueTokens",
    "Vocabulary",
    "WordScores",
]
