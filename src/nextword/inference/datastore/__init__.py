"""Makes and keeps datastores: what ``retrieval`` finds states in.

In the order in which they act:

- ``documents.py``: documents of the data as windows of tokens;
- ``shard_task.py``: the states of some windows, written as a shard;
- ``build.py``: a store from a model and data, on from where it was killed, in several processes;
- ``tuning.py``: weight and temperature of what is retrieved that fit a text best;
- ``growing.py``: a store that grows with what was said.
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
