"""What a training shows."""

from __future__ import annotations

import io

from rich.console import Console

from nextword.cli.parts.watch_training import _TrainingLines, watching_training


def test_lines_are_few_and_say_the_time_left() -> None:
    written, now = io.StringIO(), [0.0]
    lines = _TrainingLines(Console(file=written, width=100), clock=lambda: now[0])
    for step in range(1, 101):
        now[0] = step * 1.0
        lines.logged(step, 100, {"loss": 3.0 - step / 100})
    lines.logged(100, 100, {"validation loss": 2.5})
    lines.ended("data", 0.2)
    lines.ended("training", 100.0)
    shown = written.getvalue().splitlines()
    assert shown[:2] == ["step 1 of 100: loss 2.99", "step 11 of 100: loss 2.89, 1 min 29 s left"]
    assert shown[-3:] == ["step 100 of 100: loss 2", "step 100 of 100: validation loss 2.5", "training: 100.0 s"]
    assert len(shown) == 13  # one in 10 seconds, and the last ones


def test_a_terminal_has_a_bar_with_the_loss() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with watching_training(console) as watcher:
        watcher.began("training")
        watcher.advanced(0.5)
        watcher.logged(5, 10, {"loss": 2.5})
        watcher.ended("training", 1.0)
    assert "training, step 5 of 10: loss 2.5" in written.getvalue()


def test_notes_and_warnings_are_lines_on_a_terminal_and_elsewhere() -> None:
    for is_terminal in (True, False):
        written = io.StringIO()
        with watching_training(Console(file=written, force_terminal=is_terminal, width=120)) as watcher:
            watcher.noted("The text is read twice.")
            watcher.warned("It is [learned] by heart.")
        assert "The text is read twice." in written.getvalue()
        assert "warning: It is [learned] by heart." in written.getvalue()
