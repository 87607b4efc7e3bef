"""Optional libraries: whether they are installed, and how to install them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable


def missing(modules: Iterable[str]) -> list[str]:
    """Modules that cannot be imported; none is."""
    return [module for module in modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a module inside a package, that package
        return False


def install(extra: str) -> str:
    """The command that installs an extra, for users of a wheel and of a clone alike.

    >>> install("lora")
    "pip install 'nextword[lora]'"
    """
    return f"pip install 'nextword[{extra}]'"
