"""``nextword train``: train one model and save it in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextword.cli.parts.completion import complete_conditioner, complete_head, complete_method, complete_objective
from nextword.cli.parts.errors import complain, plain_errors
from nextword.cli.parts.option_groups import option_groups
from nextword.cli.parts.run_and_show import interruptible, print_line, quiet_libraries, this_command
from nextword.runtime import processes
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from nextword.experiments.training.train_config import TrainConfig
    from nextword.results.records.comparison_results import TrainingResults


class TrainOptions(Settings):
    """Options of ``nextword train``: model, data, method, and the folder for the result."""

    words: Annotated[list[str] | None, typer.Argument(metavar="[RECIPE] [KEY.PATH=VALUE]...")] = None
    """A recipe (TOML file), then settings that override those of the recipe, such as training.steps=500,
    training.learning_rate=1e-4, training.bf16=true, training.lora.rank=8, training.trains=head, task.block=512."""
    data: str | None = None
    """Training data (running text, source-target pairs or tables), required here or in the recipe: a file, a folder
    or a name on the hub."""
    model: str | None = None
    """Model, required here or in the recipe: a folder or hub name. 'small' or 'small-t5' creates a small new model."""
    states: str | None = None
    """Folder of stored states ('nextword states build'), given instead of --data and --model. Only the head is
    trained."""
    report_to: list[str] | None = None
    """Experiment tracker that receives the losses: tensorboard, wandb or trackio. May be repeated."""
    fsdp: Annotated[bool, typer.Option("--fsdp")] = False
    """Shard the model over the processes that torchrun has started (FSDP2). This option takes no value."""
    shard_vocabulary: Annotated[bool, typer.Option("--shard-vocabulary")] = False
    """Shard the output embedding over the processes that torchrun has started (vocab-parallel). This
    option takes no value."""
    out: Path | None = None
    """Folder for the trained model; by default runs/RECIPE, or runs/train without a recipe."""
    method: Annotated[str | None, typer.Option(autocompletion=complete_method)] = None
    """Short form of --head, --objective and --conditioner: HEAD/OBJECTIVE/CONDITIONER."""
    head: Annotated[str | None, typer.Option(autocompletion=complete_head)] = None
    """Head, such as cache or mos:3 ('nextword list heads'); required unless the recipe or the model has one."""
    objective: Annotated[str | None, typer.Option(autocompletion=complete_objective)] = None
    """Training objective ('nextword list objectives')."""
    conditioner: Annotated[str | None, typer.Option(autocompletion=complete_conditioner)] = None
    """Conditioner, with which the model uses an auxiliary text ('nextword list conditioners')."""
    encoder: str | None = None
    """Encoder, such as minilm, that reads the auxiliary texts."""
    seed: int | None = None
    """Seed for new parameters, batch order and dropout."""


OF_RECIPE = {"model", "states", "method", "head", "objective", "conditioner", "encoder", "seed"}
"""Names of the options that set a key of the recipe."""


@plain_errors
@option_groups
def train(asked: TrainOptions) -> None:
    """Train one model, evaluate it, check its probabilities, and save it in a folder that 'nw.load' reads.

    After an interruption, the same command resumes. If the training has finished, the command only prints its results.

    nextword train --data book.txt --model small --head cache --objective histalign --out runs/book

    nextword train mine.toml training.steps=2000 --out runs/mine
    """
    from nextword.experiments.training.train_config import configured, read
    from nextword.settings.overrides import recipe_and_overrides

    recipe, overrides = recipe_and_overrides(asked.words or [])
    content: dict[str, Any] = read(recipe) if recipe else {}
    if asked.data is not None:
        overrides = [f"data={json.dumps(asked.data, ensure_ascii=False)}", *overrides]
    content |= asked.model_dump(include=OF_RECIPE, exclude_none=True)
    training = asked.model_dump(include={"fsdp", "shard_vocabulary", "report_to"})
    if chosen := {key: value for key, value in training.items() if value}:
        content["training"] = {**content.get("training", {}), **chosen}
    config = configured(content, overrides)
    _train_and_show(config, asked.out or Path("runs") / (Path(recipe).stem if recipe else "train"))


def _train_and_show(config: TrainConfig, out: Path) -> None:
    from rich.console import Console

    from nextword.cli.parts.watch import watching
    from nextword.experiments.training.train_model import train_model

    quiet_libraries()
    console = Console()
    was_there = (out / "record.json").exists()
    with interruptible("training has not started yet"), watching(console, "start", console) as progress:
        results = train_model(config, out, progress, this_command())
    if not processes.is_main():
        return
    if was_there:
        console.print("Training had already finished; nothing was changed.", markup=False, highlight=False)
    _show(results, out, console)


def _show(results: TrainingResults, out: Path, console: Console) -> None:
    from nextword.results.report.formats import number

    for name, value in results.evaluation.metrics.items():
        low, high = value.low, value.high
        interval = f" ({number(low)} to {number(high)})" if low is not None and high is not None else ""
        print_line(console, f"{name}: {number(value.value)}{interval}, {value.unit}")
    for failure in (one for one in results.checks if one.verdict == "FAILED"):
        complain(str(failure.explanation), kind="check failed")
    print_line(console, f"Model: {out.resolve()}")
