"""``nextword reproduce --dry-run``: the plan as a table, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from nextword.cli.parts.errors import USER_ERROR, complain

if TYPE_CHECKING:
    from rich.console import Console

    from nextword.reproduction.planning.experiment_plan import ExperimentPlan
    from nextword.reproduction.planning.plan import Plan
    from nextword.reproduction.reproduce_tables import Request

GPU = "H100 80GB"
"""Whose hours are told at scale paper where no other is named."""


def plan_reproduction(request: Request, gpu: str | None, utilisation: float | None) -> None:
    """Prints the plan of a request.

    Args:
        request: What is to be reproduced.
        gpu: Whose hours are told; None: this machine's at scale small, else :data:`GPU`.
        utilisation: Share of the GPU's peak; None: assumed.

    Raises:
        ValueError: An unknown GPU, or a change that fits nothing.
        typer.Exit: With code 2 where something is wrong.
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import quiet_libraries
    from nextword.reproduction.planning.plan import plan
    from nextword.reproduction.planning.training_time import gpu_speed, speed_here

    quiet_libraries()
    here = gpu is None and utilisation is None and request.scale == "small"
    planned = plan(request, speed_here() if here else gpu_speed(gpu or GPU, utilisation))
    console = Console()
    _show(planned, console)
    for one in planned.experiments:
        for note in one.notes:
            console.print(f"note: {one.name}: {note}", markup=False, highlight=False, soft_wrap=True)
    for one in planned.experiments:
        for problem in one.problems:
            complain(f"{one.name}: {problem}")
    for problem in planned.problems:
        complain(problem)
    if not planned.is_sound:
        raise typer.Exit(USER_ERROR)


def _show(planned: Plan, console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), title="Plan", title_justify="left")
    table.add_column("experiment", no_wrap=True)
    for title in ("tables", "methods × seeds", "start", "steps", "tokens", "parameters", "memory", "disk", "time"):
        table.add_column(title, justify="left" if title == "start" else "right")
    for one in planned.experiments:
        table.add_row(*_cells(one))
    console.print(table)
    seconds = [one.seconds for one in planned.experiments]
    known = [one for one in seconds if one is not None]
    more = "" if len(known) == len(seconds) else f", and {len(seconds) - len(known)} of which nothing is known"
    for line in (
        f"{len(planned.experiments)} experiments, {_time(sum(known))}{more}",
        f"time: * measured; else of training alone, from {planned.speed}",
        "tokens: of all trainings; memory: an estimate of the largest training; parameters: of the largest method",
        f"disk: {planned.disk / 1e9:.2f} GB to be written, {planned.free / 1e9:.0f} GB free",
        *([f"nothing to run at this scale: {', '.join(planned.without)}"] if planned.without else []),
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _cells(one: ExperimentPlan) -> list[str]:
    inexact = one.row is not None and one.row.exactness != "exactly"
    about = "" if one.row is None or not inexact else "≤ " if one.row.exactness == "at most" else "~ "
    return [
        one.name,
        str(len(one.tables)),
        f"{one.methods} × {len(one.seeds)}" if one.methods else "–",
        one.start or "–",
        "–" if one.steps is None else f"{one.steps:,}",
        "–" if one.tokens is None else about + _short(one.tokens),
        "–" if one.parameters is None else _short(one.parameters),
        "–" if one.memory is None else f"{one.memory / 1e9:.2f} GB",
        "–" if one.disk is None else f"{one.disk / 1e9:.2f} GB",
        "–" if one.seconds is None else _time(one.seconds) + ("*" if one.measured else ""),
    ]


def _short(number: int) -> str:
    """With a letter for thousands, millions and billions.

    >>> _short(124_439_808), _short(950)
    ('124.4M', '950')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return str(number)


def _time(seconds: float) -> str:
    """Minutes, or hours from two on.

    >>> _time(90), _time(9000)
    ('2 min', '2.5 h')
    """
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
