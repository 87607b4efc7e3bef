"""Two stores beside a model: states of a corpus (``datastore``), and a corpus sorted by its last tokens (``ngram``)."""

from nextword.retrieval.datastore import ExactSearch, FaissSearch, RecentKeys, StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
