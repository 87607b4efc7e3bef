"""Notebooks as pages: run from top to bottom, and written as Markdown with what they printed and drew."""

from __future__ import annotations

import hashlib
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import MarkdownExporter

MOST_SECONDS = 600
"""A cell that takes longer is a fault: a reader waits for it."""


def executed(path: Path, cache: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs.

    Args:
        path: The notebook.
        cache: Folder of notebooks that ran before. One that has not changed since is not run again;
            ``make clean`` empties the folder.

    Raises:
        RuntimeError: A cell failed; its code and traceback follow.
    """
    content = path.read_bytes()
    ran = cache / f"{path.stem}-{hashlib.sha256(content).hexdigest()[:16]}.ipynb"
    if ran.exists():
        return nbformat.read(ran, as_version=4)
    notebook = nbformat.reads(content.decode("utf-8"), as_version=4)
    cache.mkdir(parents=True, exist_ok=True)
    scratch = cache / f"{path.stem}-files"
    scratch.mkdir(exist_ok=True)
    print(f"notebook {path.name}", flush=True)
    client = NotebookClient(
        notebook, timeout=MOST_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(scratch)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise RuntimeError(f"{path}: a cell failed.\n{error}") from None
    for cell in notebook.cells:  # warnings of libraries name this machine's folders
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(notebook, ran)
    return notebook


def write_page(path: Path, folder: Path, cache: Path | None) -> None:
    """Writes ``folder/NAME.md`` and what the notebook drew into ``folder/NAME_files``; runs it if there is a cache."""
    name = path.stem
    notebook = nbformat.read(path, as_version=4) if cache is None else executed(path, cache)
    text, resources = MarkdownExporter().from_notebook_node(
        notebook, resources={"unique_key": name, "output_files_dir": f"{name}_files"}
    )
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in resources["outputs"].items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
