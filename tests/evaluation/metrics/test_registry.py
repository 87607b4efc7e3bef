"""The registry of metrics finds those that ask trained models without being told of them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "asked",
    [
        "registry.get('FactCC').__name__ == 'Factcc'",
        "'tapex' in registry and 'tapexx' not in registry",
        "{'mauve', 'zipf'} <= set(registry.names()) and len(registry) == len(registry.names())",
        "parse_metric('nli').metric == 'nli'",
    ],
)
def test_metrics_of_trained_models_are_known(asked: str) -> None:
    """In a new interpreter; nothing of them is imported before, and no library of models after."""
    script = f"""
import sys
from nextword.evaluation.metrics import parse_metric, registry
assert registry.get("zipf") and "nextword.evaluation.judges" not in sys.modules
assert {asked}
assert "nextword.evaluation.judges" in sys.modules and not {{"torch", "transformers", "spacy"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_nearest_name_is_one_of_all() -> None:
    script = """
from nextword.evaluation.metrics import registry
try:
    registry.get("factc")
except ValueError as fault:
    assert "unknown metric 'factc'. Did you mean 'factcc'? Known: acc, " in str(fault), fault
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script], check=True)
