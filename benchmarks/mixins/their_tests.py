"""transformers' own tests: where they lie, how they are fetched, and how they are imported.

A wheel has none of them. A source distribution has those at the top of ``tests``, a checkout of the repository also
those of generation and of export. What is not there is stood in for by a mixin without tests.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import transformers

ROOT = Path(__file__).parents[2]
PACKAGE = "transformers_tests"
"""The name that the folder is imported under: ``tests`` is ours."""
GIVEN = "NEXTWORD_TRANSFORMERS_TESTS"
"""Environment variable that names a folder of transformers' sources, such as a checkout."""
_MODULES = {
    "ModelTesterMixin": "test_modeling_common",
    "GenerationTesterMixin": "generation.test_utils",
    "ExportTesterMixin": "exporters.test_export",
}
"""Mixin to the module that it is read from; only a checkout has all of them."""


def _file(sources: Path, module: str) -> Path:
    return sources / "tests" / f"{module.replace('.', '/')}.py"


def folder(given: Path | None = None) -> Path:
    """The folder of transformers' sources: the given one, or the one that ``fetch`` fills.

    Raises:
        ValueError: No tests of models are in the folder that was given.
    """
    if given is None and not os.environ.get(GIVEN):
        return ROOT / "runs" / "transformers-tests" / f"transformers-{transformers.__version__}"
    found = given or Path(os.environ[GIVEN])
    needed = _file(found, _MODULES["ModelTesterMixin"])
    if not needed.exists():
        raise ValueError(f"{found}: must have {needed.relative_to(found)}; name the root of a checkout of transformers")
    return found


def fetch(into: Path) -> None:
    """Downloads the source distribution of the installed version and unpacks its tests, once."""
    if _file(into, _MODULES["ModelTesterMixin"]).exists():
        return
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as temporary:
        wanted = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        version = f"transformers=={transformers.__version__}"
        subprocess.run([sys.executable, "-m", "pip", "download", "-qq", *wanted, "-d", temporary, version], check=True)
        (archive,) = Path(temporary).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            members = [one for one in packed.getmembers() if "tests" in Path(one.name).parts[1:2]]
            packed.extractall(temporary, members, filter="data")
        os.replace(Path(temporary) / archive.name.removesuffix(".tar.gz"), into)


def names_there(sources: Path) -> list[str]:
    """The mixins that the folder has."""
    return [name for name, module in _MODULES.items() if _file(sources, module).exists()]


def mixins(sources: Path) -> dict[str, Any]:
    """The mixins of transformers' tests by name, those that are there."""
    root = ModuleType(PACKAGE)
    root.__path__ = [str(sources / "tests")]
    sys.modules[PACKAGE] = root
    there = names_there(sources)
    for name, module in _MODULES.items():
        if name not in there:
            _stand_in(module, name)
    return {name: getattr(importlib.import_module(f"{PACKAGE}.{_MODULES[name]}"), name) for name in there}


def _stand_in(module: str, name: str) -> None:
    parent = f"{PACKAGE}.{module.partition('.')[0]}"
    if parent not in sys.modules:
        sys.modules[parent] = ModuleType(parent)
    made: Any = ModuleType(f"{PACKAGE}.{module}")
    setattr(made, name, type(name, (), {}))
    sys.modules[made.__name__] = made
