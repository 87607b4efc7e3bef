"""News stories with highlights, a file each, as the DeepMind Q&A data set has them (Hermann et al., NeurIPS 2015).

A file is the article, then for each highlight a line ``@highlight``, an empty line and the highlight.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nextword.corpora.gap_sentences import Pair
from nextword.corpora.pairs import OtherFiles, PairParts, Reading, split_by_hash

ENDING = ".story"
MARK = "@highlight"
CLOSING = "\"'\u2019\u201d)]"
"""What may stand after the mark that ends a sentence."""


def story_pair(text: str) -> Pair:
    r"""The highlights, as sentences, and the article; either may be empty, as it is in some stories of that data set.

    >>> story_pair("(CNN) -- It rained.\n\nA lot.\n\n@highlight\n\nIt rained\n\n@highlight\n\nWho minds?\n")
    Pair(source='It rained. Who minds?', target='(CNN) -- It rained.\n\nA lot.')
    """
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip() == MARK:
            blocks.append([])
        else:
            blocks[-1].append(line)
    article, *highlights = ("\n".join(block).strip() for block in blocks)
    return Pair(" ".join(_sentence(highlight) for highlight in highlights if highlight), article)


def read_stories(path: Path, reading: Reading, where: str) -> PairParts:
    """All stories of a folder, in the order of their names, split by a hash.

    Raises:
        ValueError: The path is no folder with stories, none of them has a highlight, or one cannot be read.
    """
    files = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else []
    if not files:
        what = "has no" if path.is_dir() else "is no .jsonl file and no folder with"
        raise ValueError(
            f"{where}: '{path}' {what} {ENDING} files. Give a .jsonl file, a folder with train.jsonl, validation.jsonl "
            f"and test.jsonl, or {STORIES.wanted}."
        )
    pairs = list(_pairs(files, where))
    if not any(pair.source for pair in pairs):
        raise ValueError(f"{where}: no line '{MARK}' in any of the {len(files)} stories, so there are no summaries")
    return split_by_hash(pairs, reading, path.name, f"{ENDING} files")


STORIES = OtherFiles(read_stories, f"a folder with {ENDING} files")
"""Such folders as what a task reads beside JSON lines."""


def _pairs(files: list[Path], where: str) -> Iterator[Pair]:
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{where}: '{file}' is not UTF-8 text (byte {error.start}).") from None
        except OSError as error:
            raise ValueError(f"{where}: cannot read '{file}' ({error.strerror or error}).") from None
        yield story_pair(text)


def _sentence(highlight: str) -> str:
    joined = " ".join(highlight.split())
    return joined if joined.rstrip(CLOSING).endswith((".", "!", "?")) else f"{joined}."
