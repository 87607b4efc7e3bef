"""Datastores of states with the token after each, on disk or in memory, and nearest-neighbour search."""

from nextword.retrieval.datastore.search import ExactSearch, FaissSearch, RecentKeys
from nextword.retrieval.datastore.stored_keys import StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
