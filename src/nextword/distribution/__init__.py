"""The NextToken distribution, its five kinds, and one over scores that are there already."""

from nextword.distribution.class_draw import ClassDraw
from nextword.distribution.factorized import Factorized
from nextword.distribution.interpolated import Interpolated
from nextword.distribution.known_scores import KnownScores
from nextword.distribution.memory_distribution import OnMemory
from nextword.distribution.mixture import Mixture
from nextword.distribution.next_token import NextToken
from nextword.distribution.score_edits import Add, Change, Edit, OnWords, Replace, Rerank
from nextword.distribution.scores import Scores
from nextword.distribution.shifted_scores import Shifted
from nextword.distribution.token_classes import TokenClasses
from nextword.distribution.vocabulary import Vocabulary
from nextword.functional.distinct_words import Words, WordScores
from nextword.functional.retrieved_entries import Retrieved
from nextword.functional.stored_entries import Entries

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
    "Vocabulary",
    "WordScores",
    "Words",
]
