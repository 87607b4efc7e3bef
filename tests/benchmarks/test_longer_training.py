"""Comparisons with more steps: differences are those of the same seeds, and what is not finished has no number."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from longer_training import COMPARISONS, PERPLEXITY, Column, Comparison, section, settings

from nextword.evaluation.metrics import metric_of
from nextword.experiments.comparison.comparison_settings import configured, read, stage_settings, task_config
from nextword.results.records import Results

BLEU = Column(title="BLEU", measure="bleu", form=".1f", decoding="beam 4", factor=100)
OF = Comparison("Tables", "logicnlg-pretrained", "logicnlg", {}, [PERPLEXITY, BLEU], "softmax")


def results(perplexity: dict[str, list[float]], bleu: dict[str, list[float]]) -> Any:
    def value(key: str, one: float) -> Any:
        return {key: SimpleNamespace(value=one, unit="", n=1, interval=None)}

    runs = [
        SimpleNamespace(method=method, seed=seed, evaluation=SimpleNamespace(metrics=value("perplexity", one)))
        for method, found in perplexity.items()
        for seed, one in enumerate(found)
    ]
    systems = [
        SimpleNamespace(
            name=method,
            values=value("bleu", found[0]),
            models=[[SimpleNamespace(values=value("bleu", one), undefined={})] for one in found],
        )
        for method, found in bleu.items()
    ]
    texts = {"beam 4": SimpleNamespace(systems=systems)} if bleu else {}
    return Results.model_construct(runs=runs, texts=texts, failures=[])


def test_differences_are_those_of_the_same_seeds() -> None:
    found = section(
        OF, results({"softmax": [10.0, 20.0, 12.0], "pg": [11.0, 26.0]}, {"softmax": [0.1, 0.2, 0.6], "pg": [0.2, 0.3]})
    )
    numbers, differences = found["parts"]
    assert numbers["columns"] == ["method", "seeds", "perplexity", "BLEU"]
    assert numbers["rows"] == [
        ["cross-entropy", "3", "14.00 <sub>10.00–20.00</sub>", "30.0 <sub>10.0–60.0</sub>"],
        ["pg", "2", "18.50 <sub>11.00–26.00</sub>", "25.0 <sub>20.0–30.0</sub>"],
    ]
    # pg has two seeds: (10 % + 30 %) / 2, with Student's t for two values, 12.706 * 10 %
    assert differences["rows"] == [["pg", "+20.0 % <sub>−107.1 to +147.1</sub>", "+10.0 <sub>+10.0 to +10.0</sub>"]]


def test_what_is_not_finished_has_no_number() -> None:
    found = section(OF, results({"softmax": [10.0]}, {}))
    assert found["parts"][0]["columns"] == ["method", "seeds", "perplexity"]
    assert section(OF, results({"softmax": [10.0], "pg": [9.0]}, {"softmax": [0.1]}))["parts"][0]["rows"][1][3] == "–"


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_is_a_recipe_that_measures_what_is_shown(name: str) -> None:
    of = COMPARISONS[name]
    config = configured(read(of.recipe), settings(name, Path("model"), Path("data")))
    assert {stage.steps for method in config.methods for stage in stage_settings(method, config)} == {400}
    assert of.baseline in [method.title for method in config.methods]
    shown = [column for column in of.columns if column.decoding]
    generation = task_config(config).generation
    decodings = {one.title for one in generation.decodings} if shown else set()
    metrics = [one if isinstance(one, str) else one["metric"] for one in generation.metrics] if shown else []
    measured = {one.partition(":")[0] for one in metrics}
    for column in shown:
        assert column.decoding is not None
        assert column.decoding.partition(", with prompt")[0] in decodings
        assert metric_of(str(column.measure)) in measured
