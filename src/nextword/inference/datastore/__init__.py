"""Makes and keeps datastores: what ``retrieval`` finds states in.

In the order in which they act:

1. ``build.py`` makes a store from a model and data, by windows of documents and shards of states, in several processes
   and on from where it was killed.
2. ``tuning.py`` finds the weight and the temperature of what is retrieved that fit a text best.
3. ``growing.py`` lets a store grow with what was said.
"""

from nextword.inference.datastore.build import BuildSettings, build_datastore
from nextword.inference.datastore.growing import expect_growing, grow, grow_by_tokens, remember_recent, remembering
from nextword.inference.datastore.tuning import tuned_retrieval, tuned_weight

__all__ = [
    "BuildSettings",
    "build_datastore",
    "expect_growing",
    "grow",
    "grow_by_tokens",
    "remember_recent",
    "remembering",
    "tuned_retrieval",
    "tuned_weight",
]
