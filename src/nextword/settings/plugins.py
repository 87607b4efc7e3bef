"""Plug-ins: components (such as heads) of other packages, found through entry points and ``--import``.

A package names, in its ``pyproject.toml``, a module whose import registers its components::

    [project.entry-points."nextword.parts"]
    sharp = "my_package.sharp"

The named module is imported only when an unknown name or the list of all names is requested. A broken package therefore
does not affect programs that use only other components.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePath

logger = logging.getLogger(__name__)

GROUP = "nextword.parts"
"""Group of the entry points. The names before ``=`` are ignored."""


@dataclass(frozen=True)
class Plugin:
    """A module whose import registers components, with name and version of its package (None for ``--import``)."""

    module: str
    package: str | None = None
    version: str | None = None

    @property
    def origin(self) -> str:
        """The module or package of the components, as lists and messages show it."""
        return f"module '{self.module}'" if self.package is None else f"package '{self.package}'"


_requested: dict[str, Plugin] = {}
_loaded: dict[Plugin, bool] = {}
"""Plug-ins whose import was tried, each with whether the import succeeded."""


def request(module: str) -> None:
    """Adds a module to the plug-ins of this process. Raises ValueError if the module does not exist."""
    if find_module(module) is None:
        stem = PurePath(module).as_posix().removesuffix(".py").removeprefix("./").replace("/", ".")
        if stem != module and find_module(stem) is not None:
            raise ValueError(f"--import {module}: must be the name of a module, not its file; write --import {stem}")
        raise ValueError(
            f"--import {module}: no such module; give the dotted name, without .py, of one in the current folder, in a "
            "folder of PYTHONPATH or in an installed package"
        )
    _requested[module] = Plugin(module)


def plugins() -> list[Plugin]:
    """All plug-ins, with each module only once: first modules of ``--import``, then entry points sorted by package."""
    named = _installed(tuple(sys.path))
    return list({plugin.module: plugin for plugin in [*reversed(named), *_requested.values()]}.values())[::-1]


@lru_cache(maxsize=1)
def _installed(_path: tuple[str, ...]) -> list[Plugin]:
    # cached for this sys.path, because every lookup of a name needs the entry points
    from importlib.metadata import entry_points

    named = [
        Plugin(entry.module, entry.dist.name, entry.dist.version)
        for entry in entry_points(group=GROUP)
        if entry.dist is not None
    ]
    return sorted(named, key=lambda plugin: (plugin.package or "", plugin.module))


def brought_by(module: str) -> Plugin | None:
    """An installed plug-in in the package of ``module``, else ``Plugin(module)``. None for a module of nextword."""
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:
        return None
    around = (one for one in plugins() if one.package and one.module.partition(".")[0] == package)
    return next(around, Plugin(module))


def load() -> None:
    """Imports every plug-in once. If an installed one cannot be imported, it is left out with a warning.

    Raises:
        ValueError: If a module of ``--import`` cannot be imported.
    """
    for plugin in plugins():
        if plugin in _loaded and (_loaded[plugin] or plugin.package is not None):
            continue  # the user asked for this module, so its error is raised every time
        _loaded[plugin] = False  # set before the import, which may itself look up names
        try:
            importlib.import_module(plugin.module)
        except Exception as fault:
            _loaded[plugin] = False  # set again, because a lookup during the import may have found half a module
            why = f"{type(fault).__name__}: {(str(fault).strip() or 'no message').splitlines()[0]}"
            if plugin.package is None:
                raise ValueError(f"--import {plugin.module}: cannot be imported ({why})") from fault
            logger.warning(
                "%s: its parts are left out, '%s' cannot be imported (%s)", plugin.origin, plugin.module, why
            )
        else:
            _loaded[plugin] = True


def loaded() -> dict[str, str]:
    """Maps each loaded plug-in's package to its version, and each loaded module of ``--import`` to its checksum."""
    return {
        plugin.package or plugin.module: _checksum(plugin.module) if plugin.package is None else plugin.version or ""
        for plugin, well in _loaded.items()
        if well
    }


def _checksum(module: str) -> str:
    digest = hashlib.sha256()
    for path in sources(module):
        digest.update(path.read_bytes())
    return f"sha256:{digest.hexdigest()}"


def find_module(name: str) -> ModuleSpec | None:
    """The import spec of a module, found without running code of the module or its packages. None if it is missing."""
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        path = None if spec is None else spec.submodule_search_locations
        if not all(parts) or (spec is not None and path is None):
            return None
        name = ".".join(parts[:count])
        spec = next((one for finder in sys.meta_path if (one := finder.find_spec(name, path)) is not None), None)
        if spec is None:
            return None
        if count < len(parts) and spec.origin is None:
            importlib.import_module(name)  # a package without __init__ runs no code, and must be imported for lookups
    return spec


def sources(name: str) -> list[Path]:
    """The source files of a module. For a package, this includes all submodules."""
    spec = find_module(name)
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [path for folder in spec.submodule_search_locations for path in sorted(Path(folder).rglob("*.py"))]
    return [Path(spec.origin)] if spec.origin and spec.origin.endswith(".py") else []
