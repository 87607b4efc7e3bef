"""``nextword states``: store a model's hidden states once, so that heads can be trained without the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextword.cli.parts.errors import plain_errors

if TYPE_CHECKING:
    from nextword.model.stored_states.state_files import StatesManifest

app = typer.Typer(help="Compute a model's hidden states once, to train heads without the model.", no_args_is_help=True)


@app.command()
@plain_errors
def build(
    model: Annotated[str, typer.Argument(help="Folder, GGUF file or name on the hub of a language model.")],
    data: Annotated[
        str, typer.Argument(help="Running text, source-target pairs or tables: a file, a folder or a name on the hub.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[task.KEY=VALUE]...", help="Task settings, for instance task.block=512 or task.kind=text."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the stored states.")] = Path("states"),
    precision: Annotated[
        str | None,
        typer.Option(
            help="Precision of the states: float16, bfloat16, float32 or float64; by default that of the model, but "
            "float16 for a float32 model."
        ),
    ] = None,
    layers: Annotated[
        int, typer.Option(help="Number of layers whose hidden states are stored; a head with +mi:KxL needs K.", min=0)
    ] = 1,
    batch_size: Annotated[int, typer.Option(help="Number of rows per forward pass.", min=1)] = 8,
    processes: Annotated[
        int | None, typer.Option(help="Number of processes, each of which loads the model; by default one.", min=1)
    ] = None,
) -> None:
    """Store a model's hidden states at every token of the data. After an interruption, the same command resumes.

    nextword states build MODEL book.txt task.block=512 --out states

    nextword train --states states --head mos:3 --out runs/mos
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries, this_command
    from nextword.cli.parts.watch import watching
    from nextword.experiments.training.stored_training import store_task_states
    from nextword.experiments.training.train_config import configured
    from nextword.inference.states import StatesSettings
    from nextword.model.stored_states.state_files import MANIFEST
    from nextword.runtime.corpora.output_files import expect_inputs_kept
    from nextword.runtime.shard_files import BEGUN

    quiet_libraries()
    expect_inputs_kept({"--out": [out / MANIFEST, out / BEGUN]}, [model, data])
    known = ("bfloat16", "float16", "float32", "float64")
    if precision is not None and precision not in known:
        raise ValueError(f"--precision: must be {', '.join(known[:-1])} or {known[-1]} ('{precision}' given)")
    settings = StatesSettings(precision=precision, layers=layers, batch_size=batch_size, processes=processes)  # type: ignore[arg-type]
    recipe: dict[str, Any] = {"model": model, "task": {"data": data}, "head": "softmax"}
    config = configured(recipe, changes or [])
    console, elsewhere = Console(), Console(stderr=True)
    with interruptible(f"finished shards are in {out}"), watching(console, "opening the model", elsewhere) as shown:
        if not console.is_terminal:
            shown.noted(f"opening {model} and reading {data}")

        def told(done: int, total: int) -> None:
            if done:
                shown.now(f"{done:,} of {total:,} tokens", done / total)
            else:
                shown.noted(f"storing the states of {total:,} tokens in {out}")

        made = store_task_states(config, out, settings, this_command(), told)
    for line in _lines(made, out):
        typer.echo(line)


def _lines(made: StatesManifest, out: Path) -> list[str]:
    rows = sum(shard.rows for shard in made.shards)
    size = sum(file.stat().st_size for file in out.iterdir() if file.is_file())
    return [
        f"{made.tokens:,} tokens in {rows:,} rows, {size / 2**20:,.0f} MiB: {out.resolve()}",
        f"Kept in {made.origin.precision}: rounding changed them by {made.rounding:.1e} of their norm.",
    ]
