"""Datastores of hidden states (keys), each with the token after it, on disk or in memory, and search for near keys."""

from nextword.retrieval.datastore.search import ExactSearch, FaissSearch, RecentKeys
from nextword.retrieval.datastore.stored_keys import StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
