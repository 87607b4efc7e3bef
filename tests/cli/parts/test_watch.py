from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from nextword.cli.parts.watch import _Lines, headline, watching
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
    console = Console(file=text, force_terminal=terminal, width=100)
    with watching(console, "start", elsewhere=console) as progress:
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
    console = Console(file=text, force_terminal=terminal, width=100)
    with watching(console, "start", elsewhere=console) as progress:
        progress.planned(4, 1)
        progress.began("[x], seed 3", "training")
        progress.failed(
            FailedRun(method="[x]", head="cache", objective="mle", seed=3, reason="KeyError: 1", traceback="runs/x.txt")
        )
    assert "failed: [x], seed 3: KeyError: 1 (runs/x.txt)" in text.getvalue()


@pytest.mark.parametrize(("terminal", "shown"), [(True, ["opening the model", "7 keys computed"]), (False, [])])
def test_what_has_no_share_is_a_line_on_a_terminal(terminal, shown):
    text = io.StringIO()
    with watching(Console(file=text, force_terminal=terminal, width=100), "opening the model") as progress:
        time.sleep(0.15)  # rich draws ten times a second
        progress.now("7 keys computed")
        time.sleep(0.15)
    assert [what for what in ("opening the model", "7 keys computed") if what in text.getvalue()] == shown


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_a_bar_says_what_is_done_now(terminal, shown):
    text = io.StringIO()
    with watching(Console(file=text, force_terminal=terminal, width=100), "opening the model") as progress:
        progress.now("sums to one", 0.25)
        time.sleep(0.15)
    assert ("sums to one" in text.getvalue() and "25%" in text.getvalue()) is shown


@pytest.mark.parametrize("terminal", [True, False])
def test_each_piece_of_work_has_a_bar_on_a_terminal(terminal):
    text = io.StringIO()
    with watching(Console(file=text, force_terminal=terminal, width=100), "opening the model") as progress:
        progress.advanced("gpt2", 1.0)
        progress.advanced("cache [x]", 0.25)
        time.sleep(0.15)
    last = text.getvalue()
    assert [shown in last for shown in ("gpt2", "100%", "cache [x]", "25%")] == [terminal] * 4


def test_a_stage_that_begins_again_at_nothing_has_a_bar_of_its_own():
    text = io.StringIO()
    with watching(Console(file=text, force_terminal=True, width=100), "reading") as progress:
        progress.now("self-bleu", 1.0)
        progress.now("rouge", 0.5)
        time.sleep(0.15)
    assert "rouge" in text.getvalue()
    assert "50%" in text.getvalue()


def test_elsewhere_what_begins_after_a_long_silence_is_a_line():
    text, now = io.StringIO(), [0.0]
    lines = _Lines(Console(file=text, width=100), clock=lambda: now[0])
    for seconds, what in ((1.0, "files"), (7.0, "files"), (8.0, "mauve"), (9.0, "rouge")):
        now[0] = seconds
        lines.now(what, 0.5)
    assert text.getvalue() == "mauve\n"


def test_lines_of_a_training_are_few_and_say_the_time_left() -> None:
    written, now = io.StringIO(), [0.0]
    lines = _Lines(Console(file=written, width=100), clock=lambda: now[0])
    for step in range(1, 101):
        now[0] = step * 1.0
        lines.logged("training", step, 100, {"loss": 3.0 - step / 100})
    lines.logged("training", 100, 100, {"validation loss": 2.5})
    lines.ended("data", "", 0.2)
    lines.ended("training", "", 100.0)
    shown = written.getvalue().splitlines()
    assert shown[:2] == ["step 1 of 100: loss 2.99", "step 11 of 100: loss 2.89, 1 min 29 s left"]
    assert shown[-3:] == ["step 100 of 100: loss 2", "step 100 of 100: validation loss 2.5", "training: 100.0 s"]
    assert len(shown) == 13  # one in 10 seconds, and the last ones


def test_a_terminal_has_a_bar_with_the_loss() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with watching(console, "start", elsewhere=console) as watcher:
        watcher.began("training", "")
        watcher.advanced("training", 0.5)
        watcher.logged("training", 5, 10, {"loss": 2.5})
        time.sleep(0.15)
        watcher.ended("training", "", 1.0)
    assert "training, step 5 of 10: loss 2.5" in written.getvalue()


def test_notes_and_warnings_are_lines_on_a_terminal_and_elsewhere() -> None:
    for is_terminal in (True, False):
        written = io.StringIO()
        console = Console(file=written, force_terminal=is_terminal, width=120)
        with watching(console, "start", elsewhere=console) as watcher:
            watcher.noted("The text is read twice.")
            watcher.warned("It is [learned] by heart.")
        assert "The text is read twice." in written.getvalue()
        assert "warning: It is [learned] by heart." in written.getvalue()
