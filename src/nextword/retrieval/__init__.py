"""Finds stored states that are near a state: a datastore on disk, and how it is searched.

In the order in which they act:

1. ``stored_keys.py`` opens a finished store as it lies on the disk, and has its shards, which are whole or not there,
   and what the store says of itself.
2. ``search.py`` finds the nearest keys, exactly or with FAISS, also among keys that are appended while somebody talks,
   the oldest forgotten first.
3. ``ngram/`` is an exact memory of a corpus, which needs no states.
"""

from nextword.retrieval.search import ExactSearch, FaissSearch, RecentKeys
from nextword.retrieval.stored_keys import StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
