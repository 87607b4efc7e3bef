"""Heads: from hidden states and memory to a distribution. One family a file; importing this package registers all."""

import importlib
import pkgutil

from nextword.heads.head import Head, HeadConfig, RemembersTokens, registry
from nextword.heads.parts.dimensions import Dimensions
from nextword.heads.parts.head_modifiers import modifiers
from nextword.heads.parts.head_spec import build_head, head_spec, parse_head

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Dimensions",
    "Head",
    "HeadConfig",
    "RemembersTokens",
    "build_head",
    "head_spec",
    "modifiers",
    "parse_head",
    "registry",
]
