"""An exact memory of a corpus: where the last tokens stand in it, and what came next there. It needs no model states.

``heads/ngram.py`` looks into it for a model, whatever its head is.
"""

from nextword.retrieval.ngram.building import Document, build_text_memory
from nextword.retrieval.ngram.levels import Found, MatchWeights, find_levels, fit_match_weights, head_alone
from nextword.retrieval.ngram.manifest import TextManifest
from nextword.retrieval.ngram.recall import TextMemory, recalled
from nextword.retrieval.ngram.text_index import TextIndex, expect_held_out

__all__ = [
    "Document",
    "Found",
    "MatchWeights",
    "TextIndex",
    "TextManifest",
    "TextMemory",
    "build_text_memory",
    "expect_held_out",
    "find_levels",
    "fit_match_weights",
    "head_alone",
    "recalled",
]
