"""Heads compute the next-token distribution from hidden states. Importing this package registers all heads.

``head.py`` defines the base class, ``context.py`` the input of a head.
"""

import importlib
import pkgutil

from nextword.heads.head import (
    CachedModule,
    Head,
    HeadConfig,
    RemembersTokens,
    build_head,
    head_spec,
    parse_head,
    registry,
)
from nextword.heads.input_states import Dimensions, MultiInputConfig, modifiers
from nextword.heads.local_embeddings import LocalEmbeddings, past_positions, past_words, source_positions, source_words
from nextword.settings.old_modules import old_names

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "CachedModule",
    "Dimensions",
    "Head",
    "HeadConfig",
    "LocalEmbeddings",
    "MultiInputConfig",
    "RemembersTokens",
    "build_head",
    "head_spec",
    "modifiers",
    "parse_head",
    "past_positions",
    "past_words",
    "registry",
    "source_positions",
    "source_words",
]

__getattr__ = old_names(__name__)
