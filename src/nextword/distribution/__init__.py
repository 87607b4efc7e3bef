"""The base class NextToken, its five kinds of distributions, and KnownScores for scores computed elsewhere."""

from nextword.distribution.factorized import ClassDraw, FactorizedDistribution, TokenClasses
from nextword.distribution.mixtures import CacheDistribution, Mixture, PointerMixture
from nextword.distribution.next_token import NextToken
from nextword.distribution.score_edits import Add, EditMode, LogitEdit, Replace, Rerank, TokenLogitEdit
from nextword.distribution.scores import KnownScores, SoftmaxDistribution
from nextword.distribution.vocabulary import Shifted, Vocabulary
from nextword.functional.copy_scores import CopyScores, Retrieved, UniqueTokens, WordScores
from nextword.settings.old_modules import old_names

__all__ = [
    "Add",
    "CacheDistribution",
    "ClassDraw",
    "CopyScores",
    "EditMode",
    "FactorizedDistribution",
    "KnownScores",
    "LogitEdit",
    "Mixture",
    "NextToken",
    "PointerMixture",
    "Replace",
    "Rerank",
    "Retrieved",
    "Shifted",
    "SoftmaxDistribution",
    "TokenClasses",
    "TokenLogitEdit",
    "UniqueTokens",
    "Vocabulary",
    "WordScores",
]

__getattr__ = old_names(__name__)
