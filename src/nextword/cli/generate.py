"""``nextword generate``: generate texts with a saved model."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextword.cli.parts.errors import plain_errors
from nextword.cli.parts.option_groups import ComputingOptions, fields_of, option_groups
from nextword.cli.parts.run_and_show import interruptible, quiet_libraries
from nextword.settings.config import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from nextword.inference.generation.generation_run import GenerationRun
    from nextword.inference.generation.prompts import TextPrompt

STDIN = "-"


class PromptOptions(Settings):
    """Options for the prompts."""

    prompts: Annotated[str | None, typer.Argument(metavar="PROMPTS")] = None
    """A text file with one prompt per line; JSON lines (.jsonl) with the fields prompt, source, auxiliary, references,
    id, such as a samples file of an earlier run; or - for standard input."""
    prompt: list[str] | None = None
    """Prompt text. May be repeated."""
    whole: Annotated[bool, typer.Option("--whole")] = False
    """Read a text file as one prompt. By default, each of its lines is a prompt."""
    field: Annotated[list[str] | None, typer.Option(metavar="FIELD=KEY")] = None
    """Map a field to its name in the file, for instance prompt=question."""
    chat: Annotated[bool, typer.Option("--chat")] = False
    """Apply the tokenizer's chat template to each prompt."""


class WritingOptions(Settings):
    """Options for decoding."""

    decoding: list[str] | None = None
    """greedy, sample[:TEMPERATURE], top-k:K[,TEMPERATURE], top-p:P[,TEMPERATURE] or beam:BEAMS. May be repeated.
    By default the model's generation_config decides."""
    arguments: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None
    """Any other argument of transformers' generate or of the head, for instance repetition_penalty=1.2,
    no_repeat_ngram_size=3, decoupled=false, assistant_model=FOLDER."""
    max_new_tokens: int | None = None
    """Maximum number of generated tokens per text; by default the model's own setting, or else 100."""
    min_new_tokens: int | None = None
    """Minimum number of generated tokens per text."""
    draft: str | None = None
    """Source of draft tokens for speculative decoding, which can save time without changing the texts: head (the
    model's copying head), prompt (n-gram lookup in the text so far), or the folder of a smaller model. Not with beam
    search."""
    stop: list[str] | None = None
    """A string that ends a text. May be repeated."""
    seed: list[int] | None = None
    """Sampling seed; 0 by default. May be repeated."""
    samples: int = 1
    """Number of texts sampled per prompt with each seed."""
    batch_size: int = 16
    """Number of texts generated at a time."""
    remember: int = 0
    """For models with the head knn: finished prompts and texts are added to a datastore, which keeps this many of the
    newest added tokens for later texts to retrieve. Texts are then generated one at a time, in order."""


class SampleOptions(Settings):
    """Options for the samples files."""

    out: Path | None = None
    """Folder for one samples file per decoding and seed, or a single FILE.jsonl. By default the texts are printed."""
    sources: Annotated[bool, typer.Option("--sources")] = False
    """Also write, for each token, the share of its probability that comes from each component of the head, and the
    positions with the largest shares."""
    positions: int = 3
    """With --sources: number of positions listed for each token."""
    score_references: Annotated[bool, typer.Option("--score-references")] = False
    """Also write the log-probabilities of the tokens of each prompt's first reference."""


@plain_errors
@option_groups
def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder of a saved model, a GGUF file or a name on the hub.")
    ],
    reading: PromptOptions,
    writing: WritingOptions,
    output: SampleOptions,
    computing: ComputingOptions,
) -> None:
    """Generate texts from prompts with a saved model.

    Works for any transformers model, with or without a nextword head. In a terminal, a single text is shown token by
    token, and the colour of a token shows which component of the head has the largest share of its probability. With
    --out, texts are written to samples files, which 'nextword evaluate' reads, and after an interruption the same
    command resumes.

    nextword generate runs/m --prompt "The king" --decoding top-p:0.9

    nextword generate runs/m prompts.jsonl --decoding greedy --decoding top-k:3 --seed 0 --seed 1 --out runs/m/texts
    """
    from rich.console import Console

    from nextword.inference.generation.generation_passes import GenerationSettings
    from nextword.runtime.corpora.output_files import expect_inputs_kept
    from nextword.runtime.pretrained import model_location
    from nextword.settings.config import validated
    from nextword.settings.overrides import overridden

    location = model_location(model)
    content = {
        "decodings": writing.decoding or [],
        "arguments": overridden({}, writing.arguments or []),
        "max_new_tokens": writing.max_new_tokens,
        "min_new_tokens": writing.min_new_tokens,
        "draft": writing.draft,
        "stop": writing.stop or [],
        "seeds": writing.seed or [0],
        "samples": writing.samples,
        "batch_size": writing.batch_size,
        "remember": writing.remember,
        "sources": output.sources,
        "positions": output.positions,
    }
    settings = validated(GenerationSettings, content)
    expect_inputs_kept({"--out": [output.out]}, [location, reading.prompts])
    prompts = _prompts(reading)
    if output.out is None and (output.sources or output.score_references):
        raise ValueError("--sources and --score-references are written to samples files; give --out")
    quiet_libraries()

    from nextword.cli.parts.watch import watching
    from nextword.inference.generation.generation_run import GenerationRun
    from nextword.inference.generation.terminal import ColouredText, show_text
    from nextword.inference.scoring.opened_model import open_model

    console = Console()
    with watching(Console(stderr=True), "opening the model"):
        run = GenerationRun.planned(
            open_model(location, computing.device, computing.dtype), prompts, settings, reading.chat
        )
    kept = "no file was written" if output.out is None else "the finished texts are kept"
    with interruptible(kept, goes_on=output.out is not None):
        if output.out is not None:
            _write(run, output.out, output.score_references)
        elif console.is_terminal and len(prompts) == len(run.passes) == run.passes[0].samples == 1:
            show_text(run, ColouredText(console))
        else:
            _print_texts(run, console)


def _prompts(reading: PromptOptions) -> list[TextPrompt]:
    from nextword.inference.generation.prompts import TextPrompt, piped_prompts, read_prompts

    if reading.prompt and reading.prompts:
        raise ValueError("--prompt and a file of prompts are both given; give one of them")
    if reading.prompt:
        return [TextPrompt(text, id=number) for number, text in enumerate(reading.prompt)]
    fields = fields_of(reading.field, "prompt=question")
    if reading.prompts is not None and reading.prompts != STDIN:
        return read_prompts(Path(reading.prompts), reading.whole, fields)
    if reading.prompts is None and sys.stdin.isatty():
        raise ValueError("no prompt: give --prompt TEXT, a file, or - to type the prompt")
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as fault:
        raise ValueError(f"standard input: not UTF-8 text ({fault.reason})") from None
    if not text:
        raise ValueError("standard input is empty: give --prompt TEXT, a file, or a text")
    return piped_prompts(text, reading.whole, fields)


def _write(run: GenerationRun, out: Path, scored: bool) -> None:
    from rich.console import Console

    from nextword.cli.parts.run_and_show import this_command
    from nextword.cli.parts.watch import watching
    from nextword.inference.generation.generation_run import write_samples_files

    with watching(Console(stderr=True), "writing") as shown:
        paths = write_samples_files(run, out, scored, partial(shown.now, "writing"), this_command())
    for path in paths:
        typer.echo(path)


def _print_texts(run: GenerationRun, console: Console) -> None:
    """Print each text after its prompt. If there are several texts, each has a heading with its name."""
    from nextword.inference.generation.generation_run import in_order
    from nextword.inference.generation.terminal import with_prompt

    texts = in_order(run)
    for one, text in texts:
        if len(texts) > 1:
            seed = "" if one.seed is None else f", seed {one.seed}, sample {text.row.sample}"
            typer.secho(f"--- prompt {text.row.prompt.number}, {one.title}{seed}", dim=console.is_terminal)
        typer.echo(with_prompt(run.opened, text))
