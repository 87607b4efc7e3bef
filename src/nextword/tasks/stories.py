"""News stories with highlights, a file each, as the DeepMind Q&A data set has them (Hermann et al., NeurIPS 2015).

A file is the article, then for each highlight a line ``@highlight``, an empty line and the highlight.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nextword.tasks.gaps import Pair
from nextword.tasks.pairs import OtherFiles, PairParts, Reading, split_by_hash

ENDING = ".story"
MARK = "@highlight"
CLOSING = "\"'\u2019\u201d)]"
"""What may stand after the mark that ends a sentence."""


def story_pair(text: str, at: str) -> Pair:
    r"""The highlights, as sentences, and the article.

    >>> story_pair("(CNN) -- It rained.\n\nA lot.\n\n@highlight\n\nIt rained\n\n@highlight\n\nWho minds?\n", "a.story")
    Pair(source='It rained. Who minds?', target='(CNN) -- It rained.\n\nA lot.')

    Raises:
        ValueError: There is no highlight in it.
    """
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip() == MARK:
            blocks.append([])
        else:
            blocks[-1].append(line)
    if len(blocks) == 1:
        raise ValueError(f"{at}: no line '{MARK}' in it, so the story has no summary; leave such files out")
    article, *highlights = ("\n".join(block).strip() for block in blocks)
    return Pair(" ".join(_sentence(highlight) for highlight in highlights if highlight), article)


def read_stories(path: Path, reading: Reading, where: str) -> PairParts:
    """All stories of a folder, in the order of their names, split by a hash.

    Raises:
        ValueError: The path is no folder with stories, or a story cannot be read or has no highlights.
    """
    files = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else []
    if not files:
        what = "has no" if path.is_dir() else "is no .jsonl file and no folder with"
        raise ValueError(
            f"{where}: '{path}' {what} {ENDING} files. Give a .jsonl file, a folder with train.jsonl, validation.jsonl "
            f"and test.jsonl, or {STORIES.wanted}."
        )
    return split_by_hash(_pairs(files, where), reading, path.name, f"{ENDING} files")


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
        yield story_pair(text, f"{where}: '{file}'")


def _sentence(highlight: str) -> str:
    joined = " ".join(highlight.split())
    return joined if joined.rstrip(CLOSING).endswith((".", "!", "?")) else f"{joined}."
