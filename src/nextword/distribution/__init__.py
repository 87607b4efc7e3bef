"""The NextToken distribution and its five kinds."""

from nextword.distribution.factorized import Factorized
from nextword.distribution.interpolated import Interpolated
from nextword.distribution.mixture import Mixture
from nextword.distribution.next_token import NextToken
from nextword.distribution.on_memory import OnMemory
from nextword.distribution.scores import Add, Edit, Replace, Scores

__all__ = ["Add", "Edit", "Factorized", "Interpolated", "Mixture", "NextToken", "OnMemory", "Replace", "Scores"]
