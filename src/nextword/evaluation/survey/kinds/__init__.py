"""Kinds of survey: what judges see, the questions, and how answers become scores of systems.

``kind.py`` defines the base class.
"""

from nextword.evaluation.survey.kinds import faithfulness, pairwise, rating
from nextword.evaluation.survey.kinds.kind import Kind, registry

__all__ = ["Kind", "faithfulness", "pairwise", "rating", "registry"]
