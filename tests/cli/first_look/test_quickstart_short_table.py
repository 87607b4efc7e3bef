"""The quickstart's ending."""

from __future__ import annotations

import io

from rich.console import Console

from nextword.cli.first_look.quickstart import short_table
from nextword.results.records import Results
from tests.helpers.made_up_results import lm_run, make_sample

METHODS = [("[plain]", "softmax", "mle", None), ("memory", "cache", "mle", None), ("both", "cache", "histalign", None)]


def printed(results: Results) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(short_table(results))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def with_shares(results: Results, *shares: float) -> Results:
    """The same with these values of acc@2, run by run."""
    runs = []
    for run, share in zip(results.runs, shares, strict=True):
        metric = run.evaluation.metrics["acc@2"].model_copy(update={"value": share, "low": 0.0, "high": 1.0})
        metrics = {**run.evaluation.metrics, "acc@2": metric}
        runs.append(run.model_copy(update={"evaluation": run.evaluation.model_copy(update={"metrics": metrics})}))
    return results.model_copy(update={"runs": runs})


def test_all_that_are_level_with_the_best_are_named() -> None:
    text = printed(with_shares(make_sample(methods=METHODS), 0.04, 1.0, 1.0))
    assert "Both words are in the top 2 on 100 % of the prompts with memory and both, and on 4 % with [plain]." in text
    assert "One seed is not enough" in text


def test_the_first_method_may_be_ahead() -> None:
    text = printed(with_shares(make_sample(methods=METHODS), 0.5, 0.4, 0.3))
    assert "[plain] ranks both words in the top 2 on 50 % of the prompts; no other method does so more often." in text


def test_several_seeds_are_means_with_their_ends() -> None:
    text = printed(with_shares(make_sample(methods=METHODS[:2], seeds=(0, 1)), 0.02, 0.04, 0.8, 1.0))
    assert "3 % (2 % to 4 %)" in text
    assert "90 % (80 % to 100 %)" in text
    assert "Means of 2 seeds" in text


def test_another_task_has_the_usual_table() -> None:
    assert "HistAlign" in printed(make_sample(lm_run, task="lm"))
