"""``nextword attach``: another head on a finished model, without training."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextword.cli.parts.completion import complete_head
from nextword.cli.parts.errors import plain_errors

if TYPE_CHECKING:
    from nextword.inference.scoring.calibrate import CalibrationResults, HeldRows
    from nextword.inference.scoring.measurement.data_files import GivenTexts


@plain_errors
def attach(
    head: Annotated[
        str,
        typer.Option(
            help="Head, such as cache, knn:store=store or ngram:index=memory ('nextword list heads').",
            autocompletion=complete_head,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model with the new head.")],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Folder, GGUF file or hub name of a model, which is not modified; with --states, by default the "
            "model of the stored states.",
        ),
    ] = None,
    held: Annotated[
        list[str] | None,
        typer.Option(
            help="Held-out text (file, folder or data set). One pass over it chooses the settings of the head cache, "
            "knn or ngram. May be repeated."
        ),
    ] = None,
    states: Annotated[
        Path | None,
        typer.Option(
            help="Folder of stored states ('nextword states build'). The validation rows of the states take the place "
            "of --held, and the model is not loaded."
        ),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="Column of a table that contains the text; by default text or target.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to read from a folder or data set.")] = "validation",
    tokens: Annotated[int, typer.Option(min=1, help="Maximum number of held-out tokens to read.")] = 10_000,
) -> None:
    """Attach another head to a finished model without training it.

    nextword attach runs/model --head knn:store=store --held valid.txt --out runs/retrieving

    nextword attach --states states --head cache --out runs/cached
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries, this_command
    from nextword.cli.parts.watch import watching
    from nextword.experiments.training.added_head import CALIBRATION, add_head
    from nextword.inference.scoring.measurement.data_files import read_texts, text_column
    from nextword.inference.scoring.opened_model import open_model

    quiet_libraries()
    texts: GivenTexts | HeldRows | None = None
    if states is not None:
        if held:
            raise ValueError("--held: must be left out with --states, whose validation rows are read")
        from nextword.experiments.training.stored_evaluation import validation_rows
        from nextword.model.stored_states.state_files import manifest_of

        texts = validation_rows(states)
        model = model or manifest_of(states).origin.model
    elif held:
        texts = read_texts(held, text_column(field), split, where="held")
    if model is None:
        raise ValueError("MODEL: must be a folder with config.json or a name on the hub (none given); give one")
    if texts is not None:
        typer.echo(f"Reading {tokens:,} tokens of held-out text at most, once", err=True)
    with interruptible(), watching(Console(), "opening the model") as shown:
        progress = partial(shown.advanced, "held-out text")
        opened = open_model(model, states=None if states is None else str(states))
        added = add_head(opened, head, out, texts, tokens=tokens, command=this_command(), progress=progress)
    if added.calibration is not None:
        for line in calibration_lines(added.calibration):
            typer.echo(line)
    if added.replaced is not None:
        typer.echo(f"This head replaces {added.replaced}, which is no longer part of the model")
    typer.echo(f"{added.spec}: {out.resolve()}")
    if added.calibration is not None:
        typer.echo(f"Details of the calibration: {(out / CALIBRATION).resolve()}")
    elif added.can_be_calibrated:
        again = shlex.join(
            ["nextword", "attach", model, "--head", head, "--held", "TEXT", "--out", f"{out}-calibrated"]
        )
        typer.echo(
            f"The head has the settings you gave. To choose its settings by one pass over held-out text: {again}"
        )


def calibration_lines(calibration: CalibrationResults) -> Iterator[str]:
    """Yield the lines that report a calibration: the chosen settings, the gain and the time."""
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in calibration.settings.items())
    interval = "" if calibration.low is None else f" ({calibration.low:.4f} to {calibration.high:.4f})"
    nats = f"{calibration.nll_without:.4f} nats per token without, "
    if calibration.helps:
        yield f"Chosen: {shown}"
        nats += f"{calibration.nll:.4f} with: {calibration.gain:.4f}{interval} gained"
    else:
        yield f"Nothing helps: {shown}"
        nats += f"the best settings gain {calibration.gain:.4f}{interval}"
    yield f"{nats}; {calibration.tokens:,} tokens, one pass, {calibration.seconds:.1f} s"


def _shown(value: object) -> str:
    if isinstance(value, list):  # weights by level, with a row for each length of a match
        rows = isinstance(value[0], list)
        return "".join(f"\n  {_shown(row)}" for row in value) if rows else " ".join(map(_shown, value))
    return "none" if value is None else f"{value:.4g}"
