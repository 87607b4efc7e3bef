"""Optional libraries: which of them are installed, and how to install the others."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable


def missing(modules: Iterable[str]) -> list[str]:
    """The names of modules that cannot be imported. The check does not import any module."""
    return [module for module in modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # for a module inside a package, if the package is missing
        return False


def install(extra: str) -> str:
    """The command that installs the libraries of ``extra``. It works for users of a wheel and of a clone.

    >>> install("lora")
    "pip install 'nextword[lora]'"
    """
    return f"pip install 'nextword[{extra}]'"
