"""A file for each kind of survey: what a judge sees, what is asked, and what an answer says about a system.

``kind.py`` is their contract.
"""

from nextword.evaluation.survey.kinds import faithfulness, pairwise, rating
from nextword.evaluation.survey.kinds.kind import Kind, registry

__all__ = ["Kind", "faithfulness", "pairwise", "rating", "registry"]
