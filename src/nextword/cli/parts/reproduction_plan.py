"""``--dry-run`` of ``nextword reproduce`` and ``compare``. It prints the plan as a table, and all problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from nextword.cli.parts.errors import INTERRUPTED, USER_ERROR, complain
from nextword.cli.parts.run_and_show import plain_table, print_line, quiet_libraries

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from nextword.experiments.comparison.comparison_settings import CompareConfig
    from nextword.experiments.reproduction.experiment_folder import Request
    from nextword.experiments.reproduction.planning.experiment_plan import ExperimentPlan, Plan

GPU = "H100 80GB"
"""Default GPU for the estimated hours at scale paper."""

UNKNOWN = "?"
FEW = 4
"""Maximum number of tables that are listed by name. If there are more, only their number is shown."""


def plan_reproduction(request: Request, gpu: str | None) -> None:
    """Print the plan of ``request``: the runs of each experiment, with their expected time, memory and disk space.

    ``gpu`` is the GPU for which the time is estimated: "NAME", or "NAME:SHARE" with the share of the GPU's peak speed
    that training reaches. If ``gpu`` is None, each kind of training is timed on this machine; at scale "paper", the
    time is estimated for the GPU that the constant ``GPU`` names.

    Raises:
        ValueError: If the GPU is unknown or an override applies to no experiment.
        typer.Exit: With code 2 if there are problems. With code 130 after Ctrl-C; the measurements so far are then
            printed.
    """
    from rich.console import Console

    from nextword.experiments.reproduction.planning.experiment_plan import plan
    from nextword.experiments.reproduction.planning.measured_steps import StepsHere
    from nextword.experiments.reproduction.planning.training_time import gpu_speed

    quiet_libraries()
    here = StepsHere(_told_on_stderr())
    measured = gpu is None and request.scale != "paper"
    planned = plan(request, here if measured else gpu_speed(gpu or GPU))
    console = Console()
    _show(planned, console, measured)
    for one in planned.experiments:
        for note in one.notes:
            print_line(console, f"note: {one.name}: {note}")
    for one in planned.experiments:
        for problem in one.problems:
            complain(f"{one.name}: {problem}")
    for problem in planned.problems:
        complain(problem)
    if here.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not planned.is_sound:
        raise typer.Exit(USER_ERROR)


def plan_comparison(config: CompareConfig) -> None:
    """Run a few steps of each kind of training, and print the expected time and memory of a comparison.

    Raises:
        ValueError: If the comparison's settings are not valid.
        typer.Exit: With code 130 after Ctrl-C. The measurements so far are then printed.
    """
    from rich.console import Console

    from nextword.experiments.reproduction.planning.experiment_plan import comparison_plan, timed
    from nextword.experiments.reproduction.planning.measured_steps import StepsHere

    quiet_libraries()
    here, console = StepsHere(_told_on_stderr()), Console()
    planned = timed(comparison_plan(config), here)
    for table in (_trainings([planned]), _amounts([planned], "")):
        console.print(table)
        console.print()
    print_line(console, f"time and memory are those of training on {here.told}")
    if config.states is not None:
        print_line(console, f"not included: computing the states that {config.states} does not contain yet")
    if here.interrupted:
        raise typer.Exit(INTERRUPTED)


def _told_on_stderr() -> Callable[[str], None]:
    from rich.console import Console

    console = Console(stderr=True)
    return lambda line: print_line(console, line)


def _show(planned: Plan, console: Console, measured: bool) -> None:
    sources = plain_table(("experiment", "tables", "begins from", "data"), lined=False, overflow="fold")
    for one in planned.experiments:
        sources.add_row(one.name, str(len(one.tables)), one.start, ", ".join(one.data))
    tried = [_trainings(planned.experiments)] if measured else []
    for table in (sources, *tried, _amounts(planned.experiments, "" if measured else "~")):
        console.print(table)
        console.print()
    for line in _legend(planned, measured):
        print_line(console, line)


def _amounts(experiments: Iterable[ExperimentPlan], estimated: str) -> Table:
    """One row per experiment. ``estimated`` is the sign before estimated values."""
    titles = ("runs", "steps", "tokens", "numbers", "memory", "disk", "time")
    amounts = plain_table(("experiment",), titles, lined=False, no_wrap=True)
    amounts.columns[0].no_wrap, amounts.columns[0].overflow = False, "fold"  # in a narrow window a name is broken
    for one in experiments:
        amounts.add_row(*_amounts_of(one, estimated))
    return amounts


def _trainings(experiments: Iterable[ExperimentPlan]) -> Table:
    from nextword.experiments.reproduction.planning.experiment_plan import seconds_of

    titles = ("runs × steps", "a step", "memory", "time")
    tried = plain_table(("experiment", "training"), titles, lined=False, overflow="fold")
    for one in experiments:
        for training, cost in zip(one.work.all_trainings if one.work else [], one.costs, strict=False):
            steps, seconds = training.steps or cost.steps, seconds_of(training, cost)
            tried.add_row(
                one.name,
                training.method.title + (", second" if training.stage else ""),
                f"{training.runs} × {UNKNOWN if steps is None else _short(steps)}",
                UNKNOWN if cost.seconds is None else f"{cost.seconds:.2g} s",
                UNKNOWN if cost.memory is None else f"{cost.memory / 1e9:.2f} GB",
                cost.reason or (UNKNOWN if seconds is None else _time(seconds)),
            )
    return tried


def _legend(planned: Plan, measured: bool) -> list[str]:
    seconds = [one.seconds for one in planned.experiments]
    known = [one for one in seconds if one is not None]
    unknown = len(seconds) - len(known)
    alone = "measured on" if measured else "estimated from the operations and the speed of"
    without = ", ".join(planned.without) if len(planned.without) <= FEW else f"{len(planned.without)} tables"
    return [
        f"{len(seconds)} experiments: {_time(sum(known))}{f' and {unknown} of unknown length' if unknown else ''}",
        "runs: methods × seeds; numbers: parameters of the largest method; memory: peak of the largest training",
        f"time and memory of training (without evaluation) are {alone} {planned.speed}",
        f"disk: {planned.disk / 1e9:.2f} GB to be written, {planned.free / 1e9:.0f} GB free",
        *([f"nothing to run at this scale: {without}"] if without else []),
    ]


def _amounts_of(one: ExperimentPlan, estimated: str) -> list[str]:
    inexact = one.row is not None and one.row.exactness != "exactly"
    about = "" if one.row is None or not inexact else "≤" if one.row.exactness == "at most" else "~"
    return [
        one.name,
        f"{one.methods} × {len(one.seeds)}",
        UNKNOWN if one.steps is None else _short(one.steps),
        UNKNOWN if one.tokens is None else about + _short(one.tokens),
        UNKNOWN if one.parameters is None else _short(one.parameters),
        UNKNOWN if one.memory is None else f"{estimated}{one.memory / 1e9:.2f} GB",
        UNKNOWN if one.disk is None else f"{one.disk / 1e9:.1f} GB",
        UNKNOWN if one.seconds is None else estimated + _time(one.seconds),
    ]


def _short(number: int) -> str:
    """Format a number with K, M or B.

    >>> _short(124_439_808), _short(950)
    ('124.4M', '950')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


def _time(seconds: float) -> str:
    """Format a time: in seconds below two minutes, in hours from two hours on, otherwise in minutes.

    >>> _time(50), _time(150), _time(9000)
    ('50 s', '2 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
