"""``nextword datastore``: build and index the datastores from which the head knn retrieves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nextword.cli.parts.errors import plain_errors

app = typer.Typer(help="Build and index datastores, which the head knn retrieves from.", no_args_is_help=True)


@app.command()
@plain_errors
def build(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder, GGUF file or name on the hub of a decoder-only model.")
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Text file, table, folder of such files, or NAME[:CONFIG] on the hub.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the datastore.")] = Path("store"),
    precision: Annotated[str, typer.Option(help="Precision of the keys: float16 or int8.")] = "float16",
    text_column: Annotated[str, typer.Option(help="Column of a table that contains the text.")] = "text",
    split: Annotated[
        str | None, typer.Option(help="Split to read from a folder or data set; by default train.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Number of tokens that the model reads at once; by default its maximum, but at most 1,024."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Number of processes, each of which loads the model; by default one.")
    ] = None,
) -> None:
    """Store each token of a corpus with its key, the hidden state from which the model predicts this token.

    After an interruption, the same command resumes.
    """
    from rich.console import Console

    from nextword.cli.parts.run_and_show import interruptible, quiet_libraries
    from nextword.cli.parts.watch import watching
    from nextword.inference.datastore import BuildSettings, build_datastore
    from nextword.retrieval.datastore.stored_keys import MANIFEST
    from nextword.runtime.corpora.output_files import expect_inputs_kept
    from nextword.runtime.shard_files import BEGUN

    quiet_libraries()

    if precision not in ("float16", "int8"):
        raise ValueError(f"--precision: must be float16 or int8 ('{precision}' given)")
    expect_inputs_kept({"--out": [out / MANIFEST, out / BEGUN]}, [model, data])
    settings = BuildSettings(
        precision=precision,  # type: ignore[arg-type]
        text_column=int(text_column) if text_column.isdigit() else text_column,
        split=split,
        window=window,
        processes=processes,
    )
    with interruptible(f"finished shards are in {out}"), watching(Console(), "opening the model") as shown:
        made = build_datastore(model, data, out, settings, lambda keys: shown.now(f"{keys:,} keys computed"))
    empty = f", {made.empty_documents:,} of them empty" if made.empty_documents else ""
    typer.echo(f"{sum(made.shards):,} keys of {made.documents:,} documents{empty}: {out.resolve()}")


@app.command()
@plain_errors
def index(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that 'nextword datastore build' wrote.")],
    factory: Annotated[
        str, typer.Option(help="FAISS factory string, for instance 'IVF1024,SQ8', 'IVF1024,PQ32' or 'HNSW32'.")
    ],
    dot: Annotated[
        bool,
        typer.Option(
            "--dot", help="Rank keys by dot product (needed for mix=joint); by default, by Euclidean distance."
        ),
    ] = False,
) -> None:
    """Build a FAISS index of a datastore. With an index, the head's search takes less time but is approximate."""
    from nextword.retrieval import StoredKeys
    from nextword.retrieval.datastore.search import build_index

    made = build_index(StoredKeys(store), factory, euclidean=not dot)
    typer.echo(f"{made.stat().st_size:,} bytes: {made.resolve()}")
