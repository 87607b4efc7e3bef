"""Runs models to build, extend and tune datastores (for the head ``knn``) and n-gram indexes."""

from nextword.inference.datastore.build import BuildSettings, build_datastore, store_texts
from nextword.inference.datastore.growing import expect_growing, grow, grow_by_tokens, remember_recent, remembering
from nextword.inference.datastore.tuning import fit_to_texts, score_with_ngrams, tuned_retrieval, tuned_weight

__all__ = [
    "BuildSettings",
    "build_datastore",
    "expect_growing",
    "fit_to_texts",
    "grow",
    "grow_by_tokens",
    "remember_recent",
    "remembering",
    "score_with_ngrams",
    "store_texts",
    "tuned_retrieval",
    "tuned_weight",
]
