"""Kinds of survey. A kind defines the texts and questions that judges see, and how their answers become scores.

``kind.py`` has the base class.
"""

from nextword.evaluation.survey.kinds import faithfulness, pairwise, rating
from nextword.evaluation.survey.kinds.kind import Kind, registry

__all__ = ["Kind", "faithfulness", "pairwise", "rating", "registry"]
