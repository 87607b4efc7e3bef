"""Makes and keeps datastores: what ``retrieval`` finds states in."""

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
