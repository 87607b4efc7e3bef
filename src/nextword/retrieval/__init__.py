"""Finds stored states that are near a state: a datastore on disk, and how it is searched.

In the order in which they act:

- ``store_manifest.py``: what a store says of itself;
- ``shard.py``: a piece of it, files that are whole or not there;
- ``stored_keys.py``: a finished store, opened as it lies on the disk;
- ``exact_search.py``, ``faiss_search.py``: the nearest keys;
- ``recent_keys.py``: keys that are appended while somebody talks, the oldest forgotten first.
"""

from nextword.retrieval.search import ExactSearch, FaissSearch, RecentKeys
from nextword.retrieval.stored_keys import StoredKeys

__all__ = ["ExactSearch", "FaissSearch", "RecentKeys", "StoredKeys"]
