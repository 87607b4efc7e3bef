"""A datastore: stored states with the token after each, on the disk or in memory, and the search for the nearest."""

from nextword.retrieval.datastore.search import ExactSearch, FaissSearch, RecentKeys
from nextword.retrieval.datastore.stored_keys import StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
