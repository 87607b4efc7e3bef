"""Two stores beside a model: states of a corpus (``datastore``), and a corpus sorted by its last tokens (``ngram``).

Heads search them, so they lie below heads. What asks a model to build, grow or tune them, for both stores side by
side, lies above models: ``nextword.inference.datastore``.
"""

from nextword.retrieval.datastore import ExactSearch, FaissSearch, RecentKeys, StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
