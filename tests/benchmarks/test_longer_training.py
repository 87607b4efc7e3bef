"""Comparisons with more steps: differences are those of the same seeds, and what is not finished has no number."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from longer_training import COMPARISONS, PERPLEXITY, Column, Comparison, command, section

from nextword.experiments.comparison.comparison_settings import configured, read, stage_settings, task_config

BLEU = Column("BLEU", "bleu", ".1f", "beam 4", 100)
OF = Comparison("Tables", "logicnlg-pretrained", "logicnlg", {}, [PERPLEXITY, BLEU], "softmax")


def results(seed: int, bleu: dict[str, float], **perplexity: float) -> Any:
    def run(method: str, value: float) -> Any:
        return SimpleNamespace(
            method=method, evaluation=SimpleNamespace(metrics={"perplexity": SimpleNamespace(value=value)})
        )

    systems = [SimpleNamespace(name=name, values={"bleu": SimpleNamespace(value=one)}) for name, one in bleu.items()]
    return SimpleNamespace(
        seeds=[seed],
        runs=[run(method, value) for method, value in perplexity.items()],
        texts={"beam 4": SimpleNamespace(systems=systems)} if bleu else {},
    )


def test_differences_are_those_of_the_same_seeds() -> None:
    found = section(OF, [
        results(0, {"softmax": 0.2, "pg": 0.3}, softmax=10.0, pg=11.0),
        results(1, {}, softmax=20.0, pg=26.0),
        results(2, {}, softmax=12.0),
    ])  # fmt: skip
    numbers, differences = found["parts"]
    assert numbers["columns"] == ["method", "seeds", "perplexity", "BLEU"]
    assert numbers["rows"][0] == ["cross-entropy", "3", "14.00 <sub>10.00–20.00</sub>", "20.0"]
    # the third seed has no pg: (10 % + 30 %) / 2, with Student's t for two seeds, 12.706 * 10 %
    assert differences["rows"] == [["pg", "+20.0 % <sub>−107.1 to +147.1</sub>", "+10.0"]]


def test_a_column_without_any_number_is_left_out() -> None:
    assert section(OF, [results(0, {}, softmax=10.0)])["parts"][0]["columns"] == ["method", "seeds", "perplexity"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_is_a_recipe_with_settings_that_exist(name: str) -> None:
    words = command(name, 1, Path("model"), Path("data"), Path("out"))
    overrides = words[5 : words.index("--out")]
    config = configured(read(words[4]), overrides)
    assert config.seeds == [1]
    assert not config.keep_models
    assert task_config(config).data == str(Path("data") / COMPARISONS[name].data)
    lengths = {stage.steps for method in config.methods for stage in stage_settings(method, config)}
    assert lengths == {400}
    assert COMPARISONS[name].baseline in [method.title for method in config.methods]
