"""Retrieval from a corpus: datastores of hidden states (``datastore``), and n-gram indexes (``ngram``).

Heads use this package. Functions that run a model to build, extend or tune stores are in
``nextword.inference.datastore``.
"""

from nextword.retrieval.datastore import ExactSearch, FaissSearch, RecentKeys, StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
