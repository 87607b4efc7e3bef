"""Finds stored states that are near a state: a datastore on disk, and how it is searched; n-grams need no states."""

from nextword.retrieval.search import ExactSearch, FaissSearch, RecentKeys
from nextword.retrieval.stored_keys import StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
