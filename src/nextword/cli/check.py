"""``nextword check``: test that a saved model's probabilities are consistent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextword.cli.parts.errors import plain_errors

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nextword.checking.findings import CheckReport


@plain_errors
def check(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="Folder of a model or an adapter, a GGUF file, or a name on the hub; required without --lm-eval.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Explain each property that is tested.")] = False,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough/--quick", help="Also test longer texts, and run tests that need much memory (float64)."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for check.json and check.html.")] = None,
    lm_eval: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL_ARGS",
            help="Check the model that lm-eval loads with these model arguments, instead of MODEL.",
        ),
    ] = None,
) -> None:
    """Check that a language model's probabilities are consistent.

    Probabilities must sum to one, must not depend on later tokens, and must be the same with and without the KV cache,
    and for a text alone and in a batch. Any transformers model can be checked.

    Exit code 1 means that a fault was found. Exit code 2 means that no fault was found but a test raised an exception,
    or that the input is wrong.
    """
    if (path is None) == (lm_eval is None):
        raise ValueError("check: must be given either MODEL or --lm-eval")
    if path is not None:
        from nextword.runtime.pretrained import model_location

        model_location(path)

    from rich.console import Console

    from nextword.checking.audit.auditing import Wanted
    from nextword.checking.checker import check_as_wanted, usual_lengths
    from nextword.cli.parts.run_and_show import quiet_libraries
    from nextword.cli.parts.watch import watching

    quiet_libraries()
    console = Console()
    with watching(console, "opening the model") as progress:
        subject, tokenizer, vocabulary = _opened(path, lm_eval)
        lengths = usual_lengths(subject, vocabulary, "thorough" if thorough else "quick")
        wanted = Wanted(lengths, tokenizer=tokenizer, thorough=thorough)
        result = check_as_wanted(subject, wanted, vocabulary, progress.now)
    console.print(result.table() if verbose else _short(result))
    if out is not None:
        from nextword.results.report.check_page import write_check

        write_check(result.record(), out)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _opened(path: str | None, lm_eval: str | None) -> tuple[Any, Any, int | None]:
    """The model to check, or lm-eval's wrapper of a model; its tokenizer; and for a wrapper, the vocabulary size."""
    if lm_eval is not None:
        from nextword.checking.audit.scorer import open_lm_eval

        scorer, vocabulary = open_lm_eval(lm_eval)
        return scorer, None, vocabulary
    from nextword.checking.opened_subject import open_subject, tokenizer_of

    assert path is not None
    return open_subject(path), tokenizer_of(path), None


def _short(result: CheckReport) -> RenderableType:
    """The table of properties, one per line. Below it, explanations of those that failed or were not checked."""
    from rich.console import Group
    from rich.text import Text

    from nextword.checking.findings import COLOURS
    from nextword.cli.parts.run_and_show import plain_table

    table = plain_table(("property", "result"), ("worst", "tolerance"), no_wrap=True)
    table.title = Text(result.title)
    for row in result.rows:
        worst = "" if row.worst is None else f"{row.worst:.2g}"
        tolerance = "" if row.worst is None else f"{row.tolerance:.2g}"
        table.add_row(Text(row.name), Text(row.verdict, style=COLOURS[row.verdict]), worst, tolerance)
    failed = [Text(f"{row.explain()} If it passes: {row.meaning}.", style="red") for row in result.failures]
    faults = [Text(f"{one} Smallest input: {[list(text) for text in one.texts]}.") for one in result.findings]
    left_out = [Text(f"{row.name}: not checked, {row.where}", style="dim") for row in result.rows if row.worst is None]
    power = [Text(sentence, style="dim") for sentence in result.power]
    return Group(table, *failed, *faults, *left_out, *power)
