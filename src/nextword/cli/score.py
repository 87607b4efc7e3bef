"""``nextword score``: the likelihood of texts under one or several models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import ComputingOptions, fields_of, option_groups
from nextword.inference.scoring.measurement.score_settings import ScoreSettings
from nextword.settings.overrides import named_path

if TYPE_CHECKING:
    from nextword.inference.scoring.measurement.data_files import GivenTexts

MODEL_FILES = ("config.json", "adapter_config.json", "model.safetensors", "tokenizer_config.json")
"""Names of files. A folder with one of these files counts as a model, even if the model is incomplete."""


class ScoreOptions(ScoreSettings):
    """Options of ``nextword score`` for the data and the heads."""

    split: str = "test"
    """Split to read from a folder or from a data set on the hub."""
    sample_by: Literal["line", "paragraph"] | None = None
    """Score each line or paragraph of a plain-text file as a text of its own; by default the file is one text."""
    set: list[str] | None = None
    """Change a setting of the heads that may change after training, such as long=12288 or temperature=2. Models whose
    heads do not have the setting are unchanged. May be repeated."""


class ProcessOptions(ComputingOptions):
    """Options of ``nextword score`` for the device, the processes and the output."""

    processes: int | None = None
    """Number of processes. Each loads the model, uses one thread, and has its own GPU if there are enough. By default
    one process with several threads."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Explain the groups of the tables."""


@plain_errors
@option_groups
def score(  # noqa: PLR0913  (its options)
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODEL... DATA...",
            help="Models and data in any order. A folder with config.json, a GGUF file, or a hub name (that is not a "
            "file here) is a model; NAME= sets its name in the tables. Any other file or folder is data: a "
            "plain-text file is one text, and so is each row of a .jsonl, .csv, .tsv or .parquet file.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]MODEL", help="Model, if its name could be taken for data.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Data, if its name could be taken for a model, such as NAME[:CONFIG] of a data set on the hub."
        ),
    ] = None,
    states: Annotated[
        Path | None,
        typer.Option(
            help="Folder of stored states ('nextword states build'), given instead of DATA: the test split of the "
            "states is scored, and only the heads of the models are loaded."
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Column of a table for a FIELD: text (by default the column text or target), prompt, source (for "
            "encoder-decoder models) or auxiliary (for models with a conditioner). May be repeated.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File (.jsonl) for the results of every token, one JSON object per token.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for score.json and score.csv. With --out and without --tokens, an interrupted run can "
            "be resumed."
        ),
    ] = None,
    *,
    settings: ScoreOptions,
    computing: ProcessOptions,
) -> None:
    """Measure the perplexity of texts under saved models, also as nats per token and bits per byte.

    Works for any model of transformers. Several models are compared on the same texts, with paired tests.

    nextword score runs/cache test.txt

    nextword score gpt2=openai-community/gpt2 mine=runs/cache test.jsonl --field text=story --out runs/score

    nextword score --states states runs/mos runs/cpr
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import (
        WRITING_SECONDS,
        interruptible,
        print_line,
        quiet_libraries,
        this_command,
    )
    from nextword.results.records import locked, write_atomically
    from nextword.results.report import group_meanings, score_csv, score_tables
    from nextword.runtime.corpora.output_files import expect_inputs_kept

    models, texts = told_apart(words or [], model or [], data or [], needs_data=states is None)
    written = [] if out is None else [out / "score.json", out / "score.csv"]
    expect_inputs_kept({"--tokens": [tokens], "--out": written}, [*models.values(), *texts])
    fields = fields_of(field, "text=story")
    given = None
    if states is not None:
        _expect_nothing_else(texts, fields, settings)
        quiet_libraries()
        given, texts, settings = _stored_test(states, settings)
    if out is not None:
        _expect_same(out, models, texts, fields, settings)
    console = Console()

    # imported only here, so that an error in the arguments appears immediately
    from nextword.cli.parts.watch import watching
    from nextword.inference.scoring.measurement.data_files import read_texts

    with interruptible(f"the finished part is kept in {out}" if out is not None and tokens is None else None):
        quiet_libraries()
        given = given or read_texts(texts, fields, settings.split, settings.sample_by)

        from nextword.inference.scoring.measurement.all_models import score_models
        from nextword.inference.scoring.opened_model import open_model
        from nextword.settings.overrides import overridden

        changes = overridden({}, settings.set or [])
        how = (computing.device, computing.dtype)
        stored = None if states is None else str(states)
        opened = [partial(open_model, path, *how, name, changes, stored) for name, path in models.items()]
        with watching(console, "opening the model") as progress:
            results = score_models(
                opened, given, settings, tokens=tokens, out=out, processes=computing.processes,
                progress=progress.advanced, command=this_command(),
            )  # fmt: skip
    if out is not None:
        with locked(out, this_command(), wait=WRITING_SECONDS):
            write_atomically(out / "score.csv", score_csv(results))
    for table in score_tables(results):
        console.print(table)
    if computing.verbose:
        console.print(group_meanings(results))
    for path in [*([tokens] if tokens else []), *written[:1]]:
        print_line(console, f"Written: {path.resolve()}")


def _stored_test(states: Path, settings: ScoreOptions) -> tuple[GivenTexts, list[str], ScoreOptions]:
    from nextword.experiments.training.stored_evaluation import test_text

    given, windows = test_text(states)
    return given, given.data, settings.model_copy(update=windows)


def _expect_nothing_else(texts: list[str], fields: dict[str, str], settings: ScoreOptions) -> None:
    """Raise ValueError if texts or windows are given together with stored states, which have their own texts."""
    given = {
        "DATA": texts,
        "--field": fields,
        "--window": settings.window,
        "--stride": settings.stride,
        "--limit": settings.limit,
        "--sample-by": settings.sample_by,
    }
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise ValueError(f"{wrong}: must be left out with --states, whose test split is scored as it was stored")


def told_apart(
    words: list[str], models: list[str], data: list[str], needs_data: bool = True
) -> tuple[dict[str, str], list[str]]:
    """Sort the arguments ``words`` into models and data, and add the values of the options ``models`` and ``data``.

    Returns:
        A mapping from the name of each model to its location, and a list of the data.

    Raises:
        ValueError: If an argument is neither a model nor data, there is no model or no data, or models share a name.
    """
    named: dict[str, str] = {}
    texts: list[str] = []
    for word in words:
        if _is_data(word):
            texts.append(word)
        else:
            _add(named, word)
    for word in models:
        _add(named, word)
    texts += data
    if not named:
        data_only = f"; read as data: {', '.join(texts)}" * bool(texts)
        raise ValueError(
            f"MODEL: must be a folder with config.json or a name on the hub (none given{data_only}); give one"
        )
    if not texts and needs_data:
        absent = [word for word in words if not Path(word.partition("=")[2] or word).expanduser().exists()]
        taken = f", and no file is called {', '.join(absent)}, so it was taken for a model's name on the hub" * bool(
            absent
        )
        raise ValueError(
            f"DATA: must be a file of text or a table (none given{taken}); give one, or a data set with --data"
        )
    return named, texts


def _is_data(word: str) -> bool:
    """Whether an argument is data; the other arguments are models, which ``model_location`` checks."""
    from nextword.runtime.corpora.part_names import is_text, table_ending
    from nextword.runtime.pretrained import COMPARED_MODELS, GGUF, is_gguf

    path = Path(word).expanduser()
    if path.is_dir():
        # the folder of a comparison is not data; the code that checks models names the models in it
        return not any(any(path.glob(name)) for name in (*MODEL_FILES, f"*{GGUF}", COMPARED_MODELS))
    if path.exists():
        return not is_gguf(path)
    location = Path(word.partition("=")[2] or word).expanduser()
    if not location.exists() and (table_ending(location) is not None or (location.suffix and is_text(location))):
        raise ValueError(f"{word}: must be a file or folder that exists (none there); give its path")
    return False


def _add(named: dict[str, str], word: str) -> None:
    from nextword.runtime.pretrained import model_location

    name, path = named_path(word)
    location = model_location(path)
    name = name or (location.resolve().name if isinstance(location, Path) else location)
    if name in named:
        raise ValueError(
            f"{word}: must have a name of its own ('{name}' is {named[name]}); name them: one={named[name]} "
            f"other={path}"
        )
    named[name] = str(location)


def _expect_same(
    out: Path, models: dict[str, str], data: list[str], fields: dict[str, str], settings: ScoreOptions
) -> None:
    """Raise ValueError, before anything is computed, if ``out`` has a score of other models, data or settings."""
    from nextword.results.records import ScoreResults
    from nextword.runtime.corpora.output_files import expect_results_folder
    from nextword.runtime.resumable import expect_same, set_ones

    path = out / "score.json"
    expect_results_folder(path, "score")
    if not path.exists():
        return
    old = ScoreResults.load(path)
    before: dict[str, Any] = {"models": {one.name: one.location for one in old.models}, "data": old.data}
    before |= {"fields": old.fields, **old.settings}
    now: dict[str, Any] = {"models": models, "data": data, "fields": fields, **settings.model_dump(mode="json")}
    expect_same(path, "score", set_ones(before), set_ones(now), lambda key: key.partition(".")[0] not in now)
