"""Writes the training and test pairs of the models of ``drafting.py``.

The input has pairs of articles and highlights (``article``, ``highlights``, ``bullets``, ``split``), and other
documents (``document`` or ``dialogue``). The first sentences of these documents are additional targets, because the
highlights are too few to learn copying. The output is ``train.jsonl``, ``validation.jsonl`` and ``test.jsonl`` for
``nextword train``; the test pairs are highlights of test articles, which occur in no training row. Dialogues with
summaries, prompts with stories, and a folder of LogicNLG (tables with sentences) keep their own splits.

With ``--ask TEXT``, ``test.jsonl`` has requests for a chat model: the text, and below it an article, a dialogue, a
prompt of a story, or a Python file of a folder.

    python benchmarks/drafting_data.py cnn/pairs.jsonl --more xsum/pairs.jsonl dialogues.jsonl --out runs/drafting/cnn
    python benchmarks/drafting_data.py logicnlg --out runs/drafting/tables
    python benchmarks/drafting_data.py src/nextword --ask "Add type hints to this code:" --out runs/drafting/code
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from cnn_lead import sentences

from nextword.runtime.corpora.logicnlg import TableSentence, read_logicnlg

_LEAD = 2
"""Sentences of a target that is the beginning of its source."""
_TIMES = 3
"""How often each pair of an article and its highlights stands beside those."""


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, one JSON object a line."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def highlights(row: dict[str, Any]) -> dict[str, str]:
    """An article and what people wrote of it."""
    return {"source": row["article"], "target": " ".join(row["bullets"] or [row["highlights"]])}


def beginning(text: str) -> dict[str, str]:
    """A text and its first sentences."""
    text = " ".join(text.split())
    return {"source": text, "target": " ".join(sentences(text)[:_LEAD])}


def windows(text: str) -> list[dict[str, str]]:
    """A text and its later parts, each with its first sentences."""
    found = sentences(" ".join(text.split()))
    return [beginning(text), *(beginning(" ".join(found[at:])) for at in range(3, len(found) - 4, 3))]


def table_pair(one: TableSentence) -> dict[str, str]:
    """A table, column names before the cells of each row, and a sentence about it."""
    rows = [", ".join(f"{name} is {cell}" for name, cell in zip(one.table.header, row, strict=True))
            for row in one.table.rows]  # fmt: skip
    return {"source": ". ".join([one.title, *rows]), "target": one.sentence.lower()}


def plain_parts(path: Path) -> dict[str, list[dict[str, str]]] | None:
    """Training, validation and test pairs of what needs no making up; None for articles with highlights."""
    if path.is_dir():
        corpus = read_logicnlg(path, str(path))
        parts = {"train": corpus.train, "validation": corpus.validation, "test": corpus.test}
        return {name: [table_pair(one) for one in part] for name, part in parts.items()}
    rows = rows_of(path)
    if "highlights" in rows[0]:
        return None
    source, target = ("dialogue", "summary") if "dialogue" in rows[0] else ("prompt", "story")
    pairs = [{"source": row[source], "target": row[target]} for row in rows]
    ends = len(pairs) * 8 // 10, len(pairs) * 9 // 10
    return {"train": pairs[: ends[0]], "validation": pairs[ends[0] : ends[1]], "test": pairs[ends[1] :]}


def articles(path: Path, more: list[Path], copying: bool) -> dict[str, list[dict[str, str]]]:
    """Training, validation and test pairs of articles with highlights."""
    pairs = rows_of(path)
    parts = {name: [row for row in pairs if row["split"] == name] for name in ("train", "val", "test")}
    documents = [row["article"] for row in parts["train"]]
    documents += [row.get("document") or row["dialogue"] for other in more for row in rows_of(other)]
    if copying:
        documents += [row["article"] for row in parts["val"]]
        tests = [beginning(row["article"]) for row in parts["test"]]
        training = [pair for text in documents for pair in windows(text)]
        return {"train": training, "validation": tests[:40], "test": tests[40:]}
    training = [highlights(row) for row in parts["train"]] * _TIMES + [beginning(text) for text in documents]
    return {
        "train": training,
        "validation": [highlights(row) for row in parts["val"]],
        "test": [highlights(row) for row in parts["test"]],
    }


def requests(path: Path, text: str) -> dict[str, list[dict[str, str]]]:
    """Test rows for a chat model: the text, and below it each document of a file or each Python file of a folder."""
    if path.is_dir():
        documents = [file.read_text(encoding="utf-8") for file in sorted(path.rglob("*.py"))]
        documents = [f"```python\n{document}" for document in documents if document]
    else:
        names = ("article", "document", "dialogue", "prompt")
        documents = [next(row[name] for name in names if name in row) for row in rows_of(path)]
    return {"train": [], "test": [{"source": f"{text}\n\n{document}", "target": ""} for document in documents]}


def main() -> None:
    """Reads and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="a file of pairs, or a folder of LogicNLG")
    parser.add_argument(
        "--more", type=Path, nargs="*", default=[], help="further files whose documents are training data"
    )
    parser.add_argument(
        "--copying", action="store_true", help="only pairs of the beginnings of a text and of its later parts"
    )
    parser.add_argument("--ask", metavar="TEXT", help="write requests for a chat model that begin with this text")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.ask:
        written = requests(given.pairs, given.ask)
    else:
        written = plain_parts(given.pairs) or articles(given.pairs, given.more, given.copying)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, rows in written.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (given.out / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(written['train'])} training pairs, {len(written['test'])} test pairs in {given.out}")


if __name__ == "__main__":
    main()
