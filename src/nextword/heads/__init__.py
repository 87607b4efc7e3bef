"""Heads: from hidden states and memory to a distribution. One family a file; importing this package registers all."""

import importlib
import pkgutil

from nextword.heads.head import Head, HeadConfig, Keeper, RemembersTokens, registry
from nextword.heads.input_states import Dimensions, MultiInputConfig, modifiers
from nextword.heads.local_embeddings import LocalEmbeddings, past_places, past_words, source_places, source_words
from nextword.heads.parsing import build_head, head_spec, parse_head

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Dimensions",
    "Head",
    "HeadConfig",
    "Keeper",
    "LocalEmbeddings",
    "MultiInputConfig",
    "RemembersTokens",
    "build_head",
    "head_spec",
    "modifiers",
    "parse_head",
    "past_places",
    "past_words",
    "registry",
    "source_places",
    "source_words",
]
