"""Modules by the names that they had before version 0.3, for plug-ins and scripts that were written then."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "comparison": "experiments.comparison",
    "config": "settings.config",
    "context": "heads.context",
    "corpora": "runtime.corpora",
    "datastore": "inference.datastore",
    "decoding": "inference.generation",
    "devices": "runtime.devices",
    "finetuning": "experiments.finetuning",
    "frequency": "functional.frequency",
    "inspection": "inference.inspection",
    "judges": "evaluation.judges",
    "memory.pass_memory": "heads.pass_memory",
    "memory": "model.head_cache",
    "metrics": "evaluation.metrics",
    "model_card": "model.card",
    "optional_libraries": "runtime.optional_libraries",
    "overrides": "settings.overrides",
    "plugins": "settings.plugins",
    "pretrained": "runtime.pretrained",
    "processes": "runtime.processes",
    "records.disk": "runtime.disk",
    "records.files": "runtime.files",
    "records.lock": "runtime.lock",
    "records": "results.records",
    "registry": "settings.registry",
    "report": "results.report",
    "reproduction": "experiments.reproduction",
    "scoring": "inference.scoring",
    "spec_syntax": "settings.spec_syntax",
    "specs": "settings.specs",
    "survey": "evaluation.survey",
    "tasks": "experiments.tasks",
    "text_memory.recalling_head": "heads.parts.recalling_head",
    "text_memory": "retrieval.ngram",
    "training": "experiments.training",
    "weights": "runtime.weights",
    "workers": "runtime.workers",
}
"""What lay at ``nextword.<key>``, the longer names first, and where it lies now."""
_PACKAGE = __name__.partition(".")[0]


class _OldNames(MetaPathFinder, Loader):
    """Imports the module of today where one is asked for by its old name: both names are the same module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = moved_to(fullname)
        return None if new is None else ModuleSpec(fullname, self, origin=new, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        if spec.name.count(".") == 1:
            warnings.warn(f"{spec.name} is {spec.origin} now", FutureWarning, stacklevel=2)
        module = importlib.import_module(spec.origin)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has just put the old name there


def moved_to(name: str) -> str | None:
    """The name of today of a module; None where it has not moved.

    >>> moved_to("nextword.metrics.bleu")
    'nextword.evaluation.metrics.bleu'
    """
    for old, new in MOVED.items():
        rest = name.removeprefix(f"{_PACKAGE}.{old}")
        if rest != name and (not rest or rest.startswith(".")):
            return f"{_PACKAGE}.{new}{rest}"
    return None


def understand() -> None:
    """From now on imports know the old names."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.append(_OldNames())  # last: only what is found nowhere else
