"""``nextword classes``: divide the tokens of a count file into classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextword.cli.parts.errors import plain_errors

if TYPE_CHECKING:
    from rich.table import Table
    from transformers import PreTrainedTokenizerBase

    from nextword.functional.frequency import FrequencyClasses, TokenCounts

EXAMPLES = 6
BAR = 30
LONGEST_CURVE = 40
"""Number of rows above which the table of MefMax's objective has, besides MefMax's choice, only every n-th number of
classes."""


@plain_errors
def classes(
    counts: Annotated[
        Path, typer.Argument(metavar="COUNTS", help="File written by 'nextword count', or a .npy file of counts.")
    ],
    number: Annotated[
        int | None, typer.Option("--classes", help="Number of classes; by default MefMax chooses it.")
    ] = None,
    division: Annotated[
        str | None,
        typer.Option(
            help="How to divide tokens into classes: mefmax (the default), eq-freq (the default with --classes) "
            "or eq-token."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Folder, GGUF file or hub name of the tokenizer. Shows each class's most frequent tokens too."
        ),
    ] = None,
) -> None:
    """Show the token classes that the head f2 would use.

    Also shows, for each number of classes, the objective of MefMax, which chooses the number with the largest value.
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import print_line
    from nextword.functional.frequency import TokenCounts, divide
    from nextword.runtime.pretrained import load_tokenizer

    counted = TokenCounts.load(counts, "counts")
    named = division or ("mefmax" if number is None else "eq-freq")
    found = divide(counted.counts, named, number)
    loaded = None if tokenizer is None else load_tokenizer(tokenizer, "--tokenizer")
    if loaded is not None:
        counted.expect_tokenizer(loaded, "--tokenizer")
    console = Console()
    # printed as separate lines, because rich breaks the title of a table to the table's width
    print_line(console, f"{found.count} classes by {named}, {counted.total:,} tokens of {counted.source}")
    console.print(_classes(counted, found, loaded))
    print_line(console, "Objective of MefMax: evenness between classes and within classes")
    console.print(_curve(counted, found, named))


def _classes(counted: TokenCounts, found: FrequencyClasses, tokenizer: PreTrainedTokenizerBase | None) -> Table:
    from rich.text import Text

    from nextword.cli.parts.run_and_show import plain_table
    from nextword.runtime.pretrained import token_label

    table = plain_table((), ("class", "tokens", "share"), no_wrap=True)
    if tokenizer is not None:
        table.add_column("the most frequent", overflow="fold")
    masses = found.masses(counted.counts)
    for number, (size, mass) in enumerate(zip(found.sizes, masses.tolist(), strict=True)):
        row = [str(number + 1), f"{size:,}", f"{100 * mass / counted.total:.1f} %"]
        if tokenizer is not None:
            row.append("  ".join(token_label(tokenizer, token) for token in found.tokens(number)[:EXAMPLES].tolist()))
        table.add_row(*map(Text, row))
    return table


def _curve(counted: TokenCounts, found: FrequencyClasses, named: str) -> Table:
    from rich.text import Text

    from nextword.cli.parts.run_and_show import plain_table
    from nextword.functional.frequency import evenness, mefmax_curve

    curve = mefmax_curve(counted.counts)
    rows = {
        int(k): (float(between), float(within), "")
        for k, between, within in zip(curve.ks, curve.between, curve.within, strict=True)
    }
    rows[curve.best] = (*rows[curve.best][:2], "mefmax")
    step = -(-len(rows) // LONGEST_CURVE)
    table = plain_table((), ("classes", "between", "within", "sum"), no_wrap=True)
    table.add_column("", no_wrap=True)
    lines = [(k, *rows[k]) for k in sorted(rows) if k == curve.best or (k - 1) % step == 0]
    if named != "mefmax":
        lines.append((found.count, *evenness(counted.counts, found), named))
        lines.sort(key=lambda line: line[0])
    # sums are close together and below 2, so bars begin at the smallest sum of two or more classes
    sums = [between + within for k, between, within, _ in lines if k > 1] or [0.0, 1.0]
    low, high = min(sums), max(sums)
    for k, between, within, mark in lines:
        bar = "█" * round(BAR * max(0.0, between + within - low) / max(high - low, 1e-12))
        numbers = (f"{k:,}", f"{between:.4f}", f"{within:.4f}", f"{between + within:.4f}")
        table.add_row(*map(Text, numbers), Text(f"{bar} ◀ {mark}" if mark else bar), style="bold" if mark else None)
    return table
