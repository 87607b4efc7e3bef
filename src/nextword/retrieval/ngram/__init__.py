"""n-gram indexes find the last tokens of a context in a corpus, and the tokens that follow there, without model states.

The head in ``nextword/heads/ngram.py`` mixes such an index with any other head.
"""

from nextword.retrieval.ngram.building import Document, build_ngram_index
from nextword.retrieval.ngram.levels import Found, MatchWeights, find_levels, fit_match_weights, head_alone
from nextword.retrieval.ngram.manifest import NgramManifest
from nextword.retrieval.ngram.ngram_index import NgramIndex, expect_held_out
from nextword.retrieval.ngram.ngram_model import NgramModel, mixed_with_ngrams
from nextword.settings.old_modules import old_names

__all__ = [
    "Document",
    "Found",
    "MatchWeights",
    "NgramIndex",
    "NgramManifest",
    "NgramModel",
    "build_ngram_index",
    "expect_held_out",
    "find_levels",
    "fit_match_weights",
    "head_alone",
    "mixed_with_ngrams",
]

__getattr__ = old_names(__name__)
