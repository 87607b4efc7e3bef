"""``nextword compare``: train and evaluate several methods under the same conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nextword.cli.parts.completion import complete_method, complete_recipe, complete_task
from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import EngineOptions, option_groups
from nextword.cli.parts.reproduction_plan import plan_comparison
from nextword.settings.config import Settings


class CompareOptions(Settings):
    """Options of ``nextword compare``: methods, data, and the folder for results."""

    words: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE] [KEY.PATH=VALUE]...", autocompletion=complete_recipe)
    ] = None
    """A recipe (TOML file, or a name from 'nextword list recipes'), then settings that override those of the recipe."""
    task: Annotated[str | None, typer.Option(autocompletion=complete_task)] = None
    """Name of a task ('nextword list tasks')."""
    model: str | None = None
    """Initial checkpoint of all methods: a folder, a GGUF file or a name on the hub; by default the task's small model.
    Short for start.model=MODEL."""
    data: str | None = None
    """Data of the task: a file, a folder or a name on the hub."""
    head: Annotated[list[str] | None, typer.Option(autocompletion=complete_method)] = None
    """Method to compare: HEAD, HEAD/OBJECTIVE or HEAD/OBJECTIVE/CONDITIONER, for instance mos:3, cache/histalign or
    softmax/mle/bergpt:2. May be repeated."""
    seed: list[int] | None = None
    """Training seed; each method is trained once per seed. May be repeated."""
    states: str | None = None
    """Folder of stored states of the initial checkpoint, built if missing. Only the heads are then trained."""
    out: Path | None = None
    """Folder for all results; by default runs/RECIPE, or runs/TASK without a recipe."""
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False
    """Run a few steps of each kind of training, then print the expected time and memory of the whole comparison."""


@plain_errors
@option_groups
def compare(asked: CompareOptions, computing: EngineOptions) -> None:
    """Train and evaluate several configurations on the same data, from the same checkpoint, with the same batches.

    Writes results.json and report.html. If the command is run again, it does only the unfinished runs.

    nextword compare wikitext2 --out runs/wikitext2 training.steps=500

    nextword compare --task ambiguous --head softmax --head cache/histalign --seed 0 --seed 1

    nextword compare --task lm --data book.txt --model gpt2 --head softmax --head pg --dry-run
    """
    from nextword.cli.parts.run_and_show import run_comparison
    from nextword.experiments.comparison.comparison_settings import configured, read
    from nextword.settings.overrides import recipe_and_overrides

    recipe, overrides = recipe_and_overrides(asked.words or [])
    content: dict[str, Any] = read(recipe) if recipe else {}
    if asked.task:
        content["task"] = {"name": asked.task}
    if asked.model is not None:
        overrides = [f"start.model={json.dumps(asked.model, ensure_ascii=False)}", *overrides]
    if asked.data is not None:
        overrides = [f"data={json.dumps(asked.data, ensure_ascii=False)}", *overrides]
    if asked.head:
        content["methods"] = list(asked.head)
    if asked.states is not None:
        content["states"] = asked.states
    if asked.seed:
        content["seeds"] = list(asked.seed)
    if recipe is None and not (asked.task and asked.head):
        raise ValueError("nothing to compare: give a recipe ('nextword list recipes'), or --task and --head")
    config = configured(content, overrides)
    if asked.dry_run:
        plan_comparison(config)
        return
    out = asked.out or Path("runs") / (Path(recipe).stem if recipe else config.task)
    run_comparison(config, out, computing.asked_for())
