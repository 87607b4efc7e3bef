from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from nextword.results.records import FailedRun, Results
from nextword.results.report import results_table

Sample = Callable[..., Results]


def printed(results: Results, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(results_table(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_usual_comparison_fits_a_usual_terminal(sample: Sample) -> None:
    text = printed(sample())
    for run in sample().runs:
        assert run.method in text
    assert "…" not in text
    assert "Acc@2" in text
    assert "1430" in text


def test_best_value_has_a_star(lm_sample: Results) -> None:
    lines = [line for line in printed(lm_sample).splitlines() if "26.40*" in line]
    assert len(lines) == 1
    assert "HistAlign" in lines[0]
    assert "* best of its column" in printed(lm_sample)


def test_seeds_are_told(sample: Sample) -> None:
    assert "mean over 3 seeds" in printed(sample(seeds=(1, 2, 3)))
    assert "mean over" not in printed(sample())


def test_values_over_fewer_seeds_are_marked_and_explained(sample: Sample) -> None:
    results = sample(seeds=(1, 2), methods=[("[a]", "softmax", "mle", None), ("b", "mos:3", "mle", None)])
    poor = results.runs[0].evaluation
    fewer = poor.model_copy(update={"metrics": {key: m for key, m in poor.metrics.items() if key != "nll"}})
    runs = [results.runs[0].model_copy(update={"evaluation": fewer}), *results.runs[1:]]
    text = printed(results.model_copy(update={"runs": runs}), width=120)
    assert "† [a]: NLL, 1 of 2 seeds only" in text
    assert text.count("†") == 2
    assert "† b: 1 of 2 seeds only" in printed(results.model_copy(update={"runs": results.runs[:3]}), width=120)
    assert "†" not in printed(results, width=120)


@pytest.mark.parametrize("label", ["[bold]x[/bold]", "[/]", "서울"])
def test_labels_are_no_markup(sample: Sample, label: str) -> None:
    assert label in printed(sample(methods=[(label, "softmax", "mle", None)]), width=120)


def test_what_failed_is_said_below(sample: Sample) -> None:
    failed = FailedRun(method="[mos]", head="mos:3", objective="mle", seed=4, reason="diverged at step 2")
    assert "[mos], seed 4: diverged at step 2" in printed(sample().model_copy(update={"failures": [failed]}))
    assert "diverged" in printed(sample().model_copy(update={"failures": [failed], "runs": []}))
