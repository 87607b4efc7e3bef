from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from nextword.cli.parts.watch import headline, share_bar, stage_bar, waiting, watching, writing_bar
from nextword.results.records import Cost, Evaluation, FailedRun, MetricValue, RunRecord

RECORD = RunRecord(
    method="cache [x]",
    head="cache",
    objective="mle",
    seed=3,
    evaluation=Evaluation(
        metrics={f"m{i}": MetricValue(value=i / 3, unit="fraction", n=1) for i in range(5)},
    ),
    cost=Cost(parameters=1, trained_parameters=1),
)


def watched(terminal):
    text = io.StringIO()
    with watching(Console(file=text, force_terminal=terminal, width=100)) as progress:
        progress.planned(4, 1)
        progress.began("cache [x], seed 3", "training")
        progress.advanced("cache [x], seed 3", 0.5)
        progress.ended("cache [x], seed 3", "training", 12.34)
        progress.finished(RECORD)
    return text.getvalue()


def test_lines_where_there_is_no_terminal():
    assert watched(terminal=False).splitlines() == [
        "4 runs, 1 finished before",
        "cache [x], seed 3: training, 12.3 s",
        "[2/4] cache [x], seed 3: m0 0, m1 0.3333, m2 0.6667",
    ]


def test_headline_has_the_first_of_every_group_of_measures():
    names = ["nll", "bits_per_byte", "perplexity", "copy_recall", "copy_precision", "rare_copy_recall", "rank@1e-3"]
    metrics = {name: MetricValue(value=1.0, unit="", n=1) for name in names}
    record = RECORD.model_copy(update={"evaluation": Evaluation(metrics=metrics)})
    shown = "nll 1, bits_per_byte 1, perplexity 1, copy_recall 1"
    assert headline(record) == f"cache [x], seed 3: {shown}"


def test_bars_on_a_terminal_keep_finished_runs():
    assert headline(RECORD) in watched(terminal=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_failed_run_is_a_line(terminal):
    text = io.StringIO()
    with watching(Console(file=text, force_terminal=terminal, width=100)) as progress:
        progress.planned(4, 1)
        progress.began("[x], seed 3", "training")
        progress.failed(
            FailedRun(method="[x]", head="cache", objective="mle", seed=3, reason="KeyError: 1", traceback="runs/x.txt")
        )
    assert "failed: [x], seed 3: KeyError: 1 (runs/x.txt)" in text.getvalue()


@pytest.mark.parametrize(("terminal", "shown"), [(True, ["opening the model", "7 keys computed"]), (False, [])])
def test_what_has_no_share_is_a_line_on_a_terminal(terminal, shown):
    text = io.StringIO()
    with waiting(Console(file=text, force_terminal=terminal, width=100), "opening the model") as say:
        time.sleep(0.15)  # rich draws ten times a second
        say("7 keys computed")
        time.sleep(0.15)
    assert [what for what in ("opening the model", "7 keys computed") if what in text.getvalue()] == shown


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_a_bar_says_what_is_done_now(terminal, shown):
    text = io.StringIO()
    with share_bar(Console(file=text, force_terminal=terminal, width=100)) as progress:
        progress("sums to one", 0.25)
        time.sleep(0.15)
    assert ("sums to one" in text.getvalue() and "25%" in text.getvalue()) is shown


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_written_and_measured_is_a_bar_on_a_terminal(terminal):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    with writing_bar(console) as written:
        written(0.25)
        time.sleep(0.15)
    with stage_bar(console) as measured:
        measured("self-bleu", 1, 2)
        time.sleep(0.15)
    assert [shown in text.getvalue() for shown in ("writing", "25%", "self-bleu")] == [terminal] * 3
