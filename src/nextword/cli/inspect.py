"""``nextword inspect``: show every token's probability in one text as an HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import ComputingOptions, option_groups
from nextword.cli.parts.run_and_show import interruptible, print_line, quiet_libraries
from nextword.settings.config import Settings
from nextword.settings.overrides import named_path

if TYPE_CHECKING:
    from nextword.results.records.token_trace import TraceRecord

LONGEST = 100
"""Default number of tokens to generate."""

SHOWN = 5000
"""Default number of tokens of a text that are shown: a page of 2 MB."""

SHORTEST = 2
"""Minimum number of tokens of a text."""


class TextOptions(Settings):
    """Options for the text that is predicted and the texts that precede it."""

    text: Annotated[Path | None, typer.Option("--text", "--target", metavar="FILE")] = None
    """Text to predict; by default the model generates one."""
    limit: Annotated[int, typer.Option(metavar="N", min=SHORTEST)] = SHOWN
    """Approximate number of tokens of --text to show, from its beginning."""
    prompt: Annotated[str, typer.Option(metavar="TEXT")] = ""
    """Text before the text to predict. The model reads it, but the page does not score it."""
    source: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Source text for an encoder-decoder model."""
    auxiliary: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Auxiliary text for a model with a conditioner."""


class InspectedWritingOptions(Settings):
    """Options for generating the text, if no text is given."""

    length: Annotated[
        int | None,
        typer.Option(
            "--continue", metavar="N", min=SHORTEST, help=f"Number of tokens to generate; {LONGEST} by default."
        ),
    ] = None
    decoding: str | None = None
    """greedy (the default), sample[:TEMPERATURE], top-k:K[,TEMPERATURE], top-p:P[,TEMPERATURE] or beam:BEAMS."""
    seed: int = 0
    """Sampling seed."""
    draft: str | None = None
    """Source of draft tokens, as in 'nextword generate': head or prompt. The page shows the draft tokens."""


class PageOptions(Settings):
    """Options for the page and the traces."""

    out: Annotated[Path, typer.Option(metavar="FILE")] = Path("inspection.html")
    """File for the page."""
    traces: Annotated[list[Path] | None, typer.Option("--json", metavar="FILE")] = None
    """File (.json) for the trace, to be given once per model. 'nextword inspect' can read it instead of the model."""
    candidates: Annotated[int, typer.Option(min=1)] = 10
    """Number of most probable tokens shown at each position."""
    positions: Annotated[int, typer.Option(min=0)] = 8
    """Number of positions shown per token: those with the largest shares of the token's probability."""


@plain_errors
@option_groups
def inspect(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]MODEL [[NAME=]MODEL]",
            help="Folder of a saved model, a GGUF file, a name on the hub, or a trace written by --json. Two models "
            "are compared on the same tokens. NAME is the model's name on the page; by default that of its folder.",
        ),
    ],
    reading: TextOptions,
    writing: InspectedWritingOptions,
    page: PageOptions,
    computing: ComputingOptions,
) -> None:
    """Show every token's probability, its alternatives and the sources of the probability, as one HTML page.

    Works for any transformers model, with or without a nextword head. With two models, the page starts with the tokens
    on which they differ. If no text is given, the first model generates a text.

    nextword inspect runs/m --text story.txt --out story.html

    nextword inspect plain=runs/softmax cache=runs/cache --prompt "The king" --continue 60
    """
    files = {"text": reading.text, "source": reading.source, "auxiliary": reading.auxiliary}
    inputs = {name: _text_of(file, f"--{name}") for name, file in files.items() if file is not None}
    inputs |= {"prompt": reading.prompt} if reading.prompt else {}
    _expect_models(models, reading, writing)
    _expect_writable(page, models, reading)

    from rich.console import Console

    from nextword.cli.parts.watch import watching

    with interruptible():
        generation = _generation(writing)
        with watching(Console(), "opening the model") as shown:
            records = _traces(models, inputs, reading.limit, generation, page, computing, shown.now)
    _write(records, page)
    traced = "".join(records[0].texts["text"].pieces[records[0].first :])
    if len(traced) < len(inputs.get("text", "")):
        typer.echo(
            f"The page shows the first {len(traced):,} of {len(inputs['text']):,} characters of --text (--limit)"
        )


def _is_trace(model: str) -> bool:
    return model.endswith(".json")


def _text_of(file: Path, option: str) -> str:
    """The content of a file, without its final newline unless ``option`` is ``--text``."""
    from nextword.runtime.corpora.packed import plain_text

    text = plain_text(file.expanduser(), option)
    return text if option == "--text" else text.removesuffix("\n").removesuffix("\r")


def _expect_models(models: list[str], reading: TextOptions, writing: InspectedWritingOptions) -> None:
    """Raise ValueError for options that contradict each other, before any library is imported."""
    from nextword.runtime.pretrained import is_gguf, model_location

    if len(models) > 2:
        raise ValueError(f"MODEL: must be one model or two ({len(models)} given); compare more of them in pairs")
    if writing.draft and len(models) > 1:
        raise ValueError(
            f"--draft: must go with one model ({len(models)} given), because the page shows its draft tokens; leave "
            f"--draft out"
        )
    asked = [model for model in models if not _is_trace(model)]
    for model in asked:
        path = named_path(model)[1]
        file = Path(path).expanduser()
        if file.is_file() and not is_gguf(file):
            raise ValueError(
                f"MODEL: must be a folder, a GGUF file or a name on the hub (the file {path} given); give a text as "
                f"--text {path}"
            )
        model_location(path)
    if asked and not (reading.text or reading.prompt or reading.source or reading.auxiliary):
        raise ValueError("--text: must be a file (none given); give one, or --prompt TEXT for the model to continue")
    if not asked and reading != TextOptions():
        raise ValueError(
            "--text, --prompt, --source, --auxiliary: must be left out with traces, which contain their text"
        )
    if reading.text and (writing.length or writing.decoding or writing.draft):
        raise ValueError(
            "--continue, --decoding, --draft: must be left out with --text; to generate a text, give --prompt in "
            "its place"
        )


def _expect_writable(page: PageOptions, models: list[str], reading: TextOptions) -> None:
    """Raise ValueError, before any computation, if an output file cannot be written or is also an input."""
    from nextword.runtime.corpora.output_files import existing_part, expect_inputs_kept

    asked = [model for model in models if not _is_trace(model)]
    traces = page.traces or []
    expect_inputs_kept(
        {"--out": [page.out], "--json": traces},
        [reading.text, reading.source, reading.auxiliary, *(named_path(model)[1] for model in models)],
    )
    for option, file in [("--out", page.out), *(("--json", trace) for trace in traces)]:
        there = existing_part(file.absolute().parent)
        if file.is_dir() or not there.is_dir():
            is_what = f"{file} is a folder" if file.is_dir() else f"{there} is a file"
            raise ValueError(f"{option} {file}: must be a file to write ({is_what}); give another path")
    if page.traces and len(page.traces) != len(asked):
        raise ValueError(f"--json: must be given once for each model ({len(page.traces)} given for {len(asked)})")


def _generation(writing: InspectedWritingOptions) -> dict[str, Any]:
    """The arguments of ``generate``. The random seed is set here."""
    from transformers import set_seed

    from nextword.inference.generation.generation_passes import GenerationSettings
    from nextword.settings.config import validated

    (decoding,) = validated(GenerationSettings, {"decodings": [writing.decoding or "greedy"]}).decodings
    set_seed(writing.seed)
    drafts = {} if writing.draft is None else {"draft": writing.draft}
    return {"max_new_tokens": writing.length or LONGEST, **decoding.arguments(), **drafts}


def _traces(
    models: list[str],
    inputs: dict[str, str],
    limit: int,
    generation: dict[str, Any],
    page: PageOptions,
    computing: ComputingOptions,
    say: Callable[[str, float | None], None],
) -> list[TraceRecord]:
    """One trace per model, all of the same text. If no text is given, the first model generates it."""
    from nextword.results.records.token_trace import TraceRecord

    records: list[TraceRecord] = []
    longest = limit if "text" in inputs else None  # what a model writes is shown to its end
    for model in models:
        if _is_trace(model):
            records.append(TraceRecord.load(model))
            continue
        say(f"opening {named_path(model)[1]}", None)
        asking = f"asking {named_path(model)[1]}"
        say(asking, None)
        ask = partial(_asking(model, page, computing), limit=longest, progress=partial(say, asking))
        record = ask(**inputs) if "text" in inputs else ask(**inputs, **generation)
        if "text" not in inputs and len(models) > 1:
            # both models score this text again, because tokenizing it may give other tokens than the generated ones
            inputs = {**inputs, "text": "".join(record.texts["text"].pieces[record.first :])}
            record = ask(**inputs)
        if len(record.tokens.log_prob) < SHORTEST:
            raise ValueError(f"--text: must have at least {SHORTEST} tokens ({len(record.tokens.log_prob)} given)")
        records.append(record)
    return records


def _asking(model: str, page: PageOptions, computing: ComputingOptions) -> Callable[..., TraceRecord]:
    from nextword.inference.inspection.trace_example import trace
    from nextword.inference.scoring.opened_model import open_model

    quiet_libraries()
    name, location = named_path(model)
    opened = open_model(location, computing.device, computing.dtype, name)
    return partial(trace, opened, candidates=page.candidates, positions=page.positions)


def _write(records: list[TraceRecord], page: PageOptions) -> None:
    from rich.console import Console

    from nextword.results.records import write_atomically
    from nextword.results.report import trace_page

    html = trace_page(*records)
    for record, file in zip(records, page.traces or [], strict=False):
        record.save(file)
    write_atomically(page.out, html)
    console = Console()
    for record in records:
        count = len(record.tokens.log_prob)
        nats = -math.fsum(record.tokens.log_prob) / count
        print_line(console, f"{record.model.name}: {count:,} tokens, {nats:.3f} nats per token")
    print_line(console, f"Page: {page.out.resolve()}")
