"""``nextword count``: count how often each token occurs in a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors


@plain_errors
def count(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Text file, table, folder of such files, or NAME[:CONFIG] on the hub.")
    ],
    tokenizer: Annotated[str, typer.Option(help="Folder, GGUF file or hub name of the tokenizer.")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("counts.npz"),
    text_column: Annotated[
        str,
        typer.Option(
            help="Column of a table that contains the text; if the table has no header, its number, starting at 0."
        ),
    ] = "text",
    split: Annotated[
        str | None,
        typer.Option(help="Split of a folder or of a data set on the hub to count; by default train."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Number of processes; by default one, with a multithreaded tokenizer.")
    ] = None,
) -> None:
    """Count how often each token occurs in a corpus, which may be larger than memory.

    After an interruption, the same command resumes. The head f2, 'nextword classes' and the metric frequency-groups
    read the file of counts.
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, print_line
    from nextword.cli.parts.watch import watching
    from nextword.functional.frequency import count_tokens
    from nextword.runtime.pretrained import load_tokenizer

    column = int(text_column) if text_column.isdigit() else text_column
    console = Console()
    loaded = load_tokenizer(tokenizer, "--tokenizer")
    with interruptible(f"the unfinished counts are in the folder of {out}"), watching(console, "reading") as shown:
        counted = count_tokens(
            data,
            loaded,
            out=out,
            text_column=column,
            split=split,
            processes=processes,
            progress=lambda done: shown.now(f"{done:,} texts counted"),
        )
    tokens = f"{counted.total:,} tokens, {counted.distinct:,} of {len(counted.counts):,} distinct"
    print_line(console, f"{tokens}: {out.resolve()}")
