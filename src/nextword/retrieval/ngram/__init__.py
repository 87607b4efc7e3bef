"""An exact memory of a corpus: where the last tokens stand in it, and what came next there. It needs no model states.

In the order in which they act:

1. ``manifest.py`` says of a stored corpus which tokenizer and data it was made of.
2. ``building.py`` sorts the positions of a corpus by what comes before them, and writes it with that order into a
   folder, as a whole or not at all.
3. ``text_index.py`` opens such a folder, finds by bisection the positions whose last tokens are given ones, and refuses
   to score a text that is stored.
4. ``levels.py`` looks up the longest match of a text and shorter ones that occur more often, and says how much each of
   them counts, by the length of the match, fitted to held-out text.
5. ``recall.py`` mixes what was found with the distribution of a head.

``heads/ngram.py`` does all of it for a model, whatever its head is.
"""

from nextword.retrieval.ngram.building import Document, build_text_memory
from nextword.retrieval.ngram.levels import Found, MatchWeights, find_levels, fit_match_weights, head_alone
from nextword.retrieval.ngram.manifest import TextManifest
from nextword.retrieval.ngram.recall import Origin, TextMemory, recalled
from nextword.retrieval.ngram.text_index import StoredPlace, TextIndex, expect_held_out

__all__ = [
    "Document",
    "Found",
    "MatchWeights",
    "Origin",
    "StoredPlace",
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
