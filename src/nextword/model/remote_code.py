"""The file in a saved folder that leads from transformers to this library, and the ``auto_map`` that names it.

``AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)`` runs that file in a process that never imported
nextword. It holds no model code: it imports the classes. transformers reads its imports first, and where nextword is
not installed says "Run `pip install nextword`".
"""

from __future__ import annotations

import os
from pathlib import Path

from nextword.results.records import write_atomically

_MODULE = "modeling_nextword"

_SOURCE = '''"""This model is loaded by nextword (pip install nextword): transformers finds its classes here."""

from nextword import NextWordConfig, NextWordForCausalLM, NextWordForSeq2SeqLM, NextWordSeq2SeqConfig

__all__ = ["NextWordConfig", "NextWordForCausalLM", "NextWordForSeq2SeqLM", "NextWordSeq2SeqConfig"]
'''


def auto_map(**classes: str) -> dict[str, str]:
    """What a configuration file says of the classes that the Auto classes are to use.

    >>> auto_map(AutoConfig="NextWordConfig")
    {'AutoConfig': 'modeling_nextword.NextWordConfig'}
    """
    return {auto: f"{_MODULE}.{name}" for auto, name in classes.items()}


def write_remote_code(folder: str | os.PathLike[str]) -> None:
    """Writes the file that ``auto_map`` names."""
    write_atomically(Path(folder) / f"{_MODULE}.py", _SOURCE)
