"""Registers our models with the Auto classes of transformers, whichever of the two libraries is imported first.

``AutoConfig.register`` needs transformers. Importing transformers takes seconds, and ``nextword --help`` should not
wait. So if transformers has not imported its table of configurations yet, an import hook adds ours right after that
import. Model classes are registered when the first of our configurations is made (``nextword.model.configuration``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_TABLE = "transformers.models.auto.configuration_auto"


def register() -> None:
    """Registers our configurations with ``AutoConfig``, now or as soon as ``AutoConfig`` is imported."""
    if _TABLE in sys.modules:
        _register_now()
    elif not any(isinstance(finder, _AfterTheTable) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTheTable())


def list_by_name(causal: Any, seq2seq: Any) -> None:
    """Adds the names of two model classes to transformers' tables, and the classes to every module ``transformers``."""
    from transformers.models.auto import modeling_auto as tables

    # Libraries treat a class outside these tables as a model that does not predict the next token. ``Trainer`` with
    # label smoothing then does not shift the labels, and lm-eval treats an encoder-decoder model as decoder-only.
    tables.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[causal.config_class.model_type] = causal.__name__
    tables.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES[seq2seq.config_class.model_type] = seq2seq.__name__
    # ``transformers serve`` looks up the class named in config.json in the module ``transformers``. This module loads a
    # second time when a processor is first needed, and modules that imported it before (such as the server) keep the
    # first one. So the classes are added to every module of this name.
    holders = [vars(module).get("transformers") for module in list(sys.modules.values()) if module is not None]
    for holder in [sys.modules["transformers"], *holders]:
        if isinstance(holder, ModuleType) and holder.__name__ == "transformers":
            setattr(holder, causal.__name__, causal)
            setattr(holder, seq2seq.__name__, seq2seq)


def _register_now() -> None:
    import nextword.model.configuration  # noqa: F401  (registers what it defines)


class _AfterTheTable:
    """An import hook that runs ``_register_now`` after transformers' table of configurations is imported.

    It does not inherit from ``MetaPathFinder``, because importing this class would take most of ``import nextword``.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == _TABLE else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            _register_now()

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
