"""``nextword ngram``: build an n-gram index of a corpus, fit its weights, and score texts with it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import ComputingOptions, option_groups
from nextword.inference.scoring.measurement.score_settings import ScoreSettings

if TYPE_CHECKING:
    from nextword.inference.scoring.measurement.data_files import GivenTexts

app = typer.Typer(
    help="Index the n-grams of a corpus, and mix any model with the frequencies of the tokens after them.",
    no_args_is_help=True,
)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Folder, GGUF file or hub name of a model.")]
Memory = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder that 'nextword ngram build' wrote.")]
Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Files, folders or data sets. A plain-text file is one document, and so is each row of a .jsonl, "
        ".csv, .tsv "
        "or .parquet file.",
    ),
]
Field = Annotated[str | None, typer.Option(help="Column of a table that contains the text; by default text or target.")]


class NgramScoreOptions(ScoreSettings):
    """Options of ``nextword ngram score``."""

    split: str = "test"
    """Split to read from a folder or from a data set on the hub."""
    field: str | None = None
    """Column of a table that contains the text; by default text or target."""
    stored_text: bool = False
    """Allow texts that are in the index, which are otherwise an error."""


class FitOptions(NgramScoreOptions):
    """Options of ``nextword ngram fit``."""

    split: str = "valid"
    """Split to read from a folder or from a data set on the hub."""


@app.command()
@plain_errors
def build(
    tokenizer: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or hub name of a model or tokenizer.")],
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    field: Field = None,
    split: Annotated[str, typer.Option(help="Split to read from a folder or from a data set on the hub.")] = "train",
) -> None:
    """Index texts as a suffix array, so that the tokens after any n-gram are found quickly.

    nextword ngram build runs/softmax train.txt --out memory
    """
    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries, this_command
    from nextword.retrieval.ngram.manifest import MANIFEST, NAMES
    from nextword.runtime.corpora.output_files import expect_inputs_kept
    from nextword.runtime.pretrained import load_tokenizer

    expect_inputs_kept({"--out": [out / MANIFEST, out / NAMES]}, [*data, tokenizer])
    quiet_libraries()
    given = _texts(data, field, split)
    loaded = load_tokenizer(tokenizer, "MODEL")
    from rich.console import Console

    from nextword.cli.parts.watch import watching
    from nextword.inference.datastore import store_texts

    with interruptible(), watching(Console(), "reading and sorting the texts"):
        made = store_texts(loaded, given, out, this_command())
    typer.echo(f"{made.tokens:,} tokens of {made.documents:,} documents")
    typer.echo(f"Written: {out.resolve()}")


@app.command()
@plain_errors
@option_groups
def fit(
    model: Model,
    memory: Memory,
    data: Data,
    out: Annotated[Path, typer.Option(help="File for the weights.")],
    *,
    settings: FitOptions,
    computing: ComputingOptions,
) -> None:
    """Fit the interpolation weights of the index on held-out text. They depend on a match's length and frequency.

    nextword ngram fit runs/softmax memory valid.txt --out weights.json
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries
    from nextword.cli.parts.watch import watching
    from nextword.retrieval.ngram import NgramIndex
    from nextword.runtime.corpora.output_files import expect_inputs_kept

    expect_inputs_kept({"--out": [out]}, [*data, model, *memory.glob("*")])
    quiet_libraries()
    given, index = _texts(data, settings.field, settings.split), NgramIndex(memory)
    from nextword.inference.datastore import fit_to_texts
    from nextword.inference.scoring.opened_model import open_model

    with interruptible(), watching(Console(), "opening the model") as shown:
        opened = open_model(model, computing.device, computing.dtype)
        progress = partial(shown.advanced, "held-out text")
        fitted = fit_to_texts(opened, index, given, settings, stored=settings.stored_text, progress=progress)
    fitted.save(out)
    interval = "" if fitted.low is None else f" ({fitted.low:.4f} to {fitted.high:.4f})"
    helps = fitted.low is not None and fitted.low > 0
    typer.echo(
        f"{'' if helps else 'No weight helps, so the head predicts alone: '}{fitted.gain:.4f} nats per token{interval}"
        f" gained, {fitted.tokens:,} tokens"
    )
    typer.echo("match        head  " + "  ".join(f"{least:>4}+" for least in fitted.evidence))
    for least, shares in zip(fitted.lengths, fitted.shares, strict=True):
        typer.echo(f"{least:>3} and more  " + "  ".join(f"{share:5.3f}" for share in shares))
    typer.echo(f"Written: {out.resolve()}")


@app.command()
@plain_errors
@option_groups
def score(
    model: Model,
    memory: Memory,
    data: Data,
    weights: Annotated[Path, typer.Option(help="File that 'nextword ngram fit' wrote.")],
    out: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
    *,
    settings: NgramScoreOptions,
    computing: ComputingOptions,
) -> None:
    """Measure the perplexity of texts under a model, with and without the n-gram index.

    nextword ngram score runs/softmax memory test.txt --weights weights.json
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries, this_command
    from nextword.cli.parts.watch import watching
    from nextword.results.report import score_tables
    from nextword.retrieval.ngram import NgramModel
    from nextword.runtime.corpora.output_files import expect_inputs_kept

    expect_inputs_kept({"--out": [out]}, [*data, model, weights, *memory.glob("*")])
    quiet_libraries()
    given, remembered = _texts(data, settings.field, settings.split), NgramModel.open(memory, weights)
    from nextword.inference.datastore import score_with_ngrams
    from nextword.inference.scoring.opened_model import open_model

    console = Console()
    with interruptible(), watching(console, "opening the model") as shown:
        opened = open_model(model, computing.device, computing.dtype)
        results = score_with_ngrams(
            opened,
            remembered,
            given,
            settings,
            stored=settings.stored_text,
            progress=shown.advanced,
            command=this_command(),
        )
    if out is not None:
        results.save(out)
    for table in score_tables(results):
        console.print(table)


def _texts(data: list[str], field: str | None, split: str) -> GivenTexts:
    from nextword.inference.scoring.measurement.data_files import read_texts, text_column

    return read_texts(data, text_column(field), split)
