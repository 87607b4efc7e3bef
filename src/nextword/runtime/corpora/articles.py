"""Reads a folder of articles with summaries, with one file per article. Optional lists define the splits.

The lists have the format of CNN/DailyMail and XSum: either one text file per split (``all_train.txt``) with one article
per line, or one JSON file for all splits (``{"train": [names], ...}``). An article is listed by its file name without
ending; in text files also by a URL, whose SHA-1 is the file name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.packed import file_text
from nextword.runtime.corpora.pairs import OtherFiles, PairParts, PairReading, dealt, give, split_by_hash
from nextword.runtime.corpora.part_names import PARTS, TEXTS, part_files, part_of


@dataclass(frozen=True)
class ArticleForm:
    """File format of one article.

    Attributes:
        ending: Ending of the file name.
        pair: Function that makes a pair from the file's text. A side that the text lacks is empty.
        mark: Text before the summary in every file, for messages.
        origin: Name and source of the data set, for messages.
    """

    ending: str
    pair: Callable[[str], Pair]
    mark: str
    origin: str

    def files(self, folder: Path) -> Iterator[Path]:
        """The files with this ending, in a folder and its subfolders."""
        return folder.rglob(f"*{self.ending}")


def article_files(forms: Sequence[ArticleForm]) -> OtherFiles:
    """Makes a reader of folders of articles. It reads files of the first of ``forms`` that has files in the folder."""
    wanted = " or ".join(f"a folder with {form.ending} files ({form.origin})" for form in forms)

    def claims(path: Path) -> bool:
        return path.is_dir() and any(True for form in forms for _ in form.files(path))

    def read(path: Path, reading: PairReading, where: str) -> PairParts:
        for form in forms if path.is_dir() else ():
            files = sorted(form.files(path))
            if files:
                return _parts(files, path, form, reading, where)
        endings = " or ".join(form.ending for form in forms)
        neither = f"is neither a .jsonl file nor a folder with {endings} files"
        what = f"has no {endings} files" if path.is_dir() else neither
        raise ValueError(f"{where}: '{path}' {what}. {give(wanted)}")

    return OtherFiles(read, wanted, claims)


def _parts(files: list[Path], folder: Path, form: ArticleForm, reading: PairReading, where: str) -> PairParts:
    pairs = {file.name.removesuffix(form.ending): form.pair(file_text(file, where)) for file in files}
    if not any(pair.source and pair.target for pair in pairs.values()):
        raise ValueError(
            f"{where}: no line '{form.mark}' in any of the {len(files)} {form.ending} files, so there are no summaries"
        )
    listed = _listed_parts(folder, where)
    if listed is None:
        return split_by_hash(pairs.values(), reading, folder.name, f"{form.ending} files")
    there = [(part, pairs[name]) for part, names in listed.items() for name in names if name in pairs]
    missing = sum(map(len, listed.values())) - len(there)
    split = f"{form.ending} files by lists" + (f", {missing} listed ones missing" if missing else "")
    return dealt(there, folder.name, split)


def _listed_parts(folder: Path, where: str) -> dict[str, list[str]] | None:
    parts: dict[str, dict[str, None]] = {part: {} for part in PARTS}
    for file in sorted(folder.rglob("*.json")):
        for word, names in _lists_of_json(file, where).items():
            parts[word] |= dict.fromkeys(names)
    for part in PARTS:
        for file in part_files(folder, part, where, TEXTS):
            parts[part] |= dict.fromkeys(_name(line) for line in file_text(file, where).splitlines() if line.strip())
    return {part: list(names) for part, names in parts.items()} if any(parts.values()) else None


def _lists_of_json(file: Path, where: str) -> dict[str, list[str]]:
    try:
        content = json.loads(file_text(file, where))
    except ValueError as fault:
        raise ValueError(f"{where}: '{file}' is not JSON ({fault}); download it again") from None
    lists = content.items() if isinstance(content, dict) else ()
    return {part: [str(name) for name in names] for word, names in lists if (part := part_of(word)) is not None}


def _name(line: str) -> str:
    entry = line.strip()
    return hashlib.sha1(entry.encode(), usedforsecurity=False).hexdigest() if "://" in entry else entry


# -- News stories with highlights, one file each, as in the DeepMind Q&A data set (Hermann et al., NeurIPS 2015).
#
# A file has the article. For each highlight, a line ``@highlight``, an empty line and the highlight follow.

ENDING = ".story"
MARK = "@highlight"
CLOSING = "\"'\u2019\u201d)]"
"""Characters that may follow the mark that ends a sentence."""


def story_pair(text: str) -> Pair:
    r"""The pair of a story: the source is its highlights, as sentences, the target its article. Either may be empty.

    >>> story_pair("(CNN) -- It rained.\n\nA lot.\n\n@highlight\n\nIt rained\n\n@highlight\n\nWho minds?\n")
    Pair(source='It rained. Who minds?', target='(CNN) -- It rained.\n\nA lot.', others=())
    """
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip() == MARK:
            blocks.append([])
        else:
            blocks[-1].append(line)
    article, *highlights = ("\n".join(block).strip() for block in blocks)
    return Pair(" ".join(_sentence(highlight) for highlight in highlights if highlight), article)


def backwards(pair: Pair) -> Pair:
    """The pair with source and target exchanged.

    >>> backwards(Pair("short", "long"))
    Pair(source='long', target='short', others=())
    """
    return Pair(pair.target, pair.source)


STORY = ArticleForm(ENDING, story_pair, MARK, "CNN/DailyMail: github.com/abisee/cnn-dailymail")
"""Stories as pairs of highlights and article, for tasks in which models generate articles."""

STORIES = article_files([STORY])
"""Reader of folders of stories, for tasks that also read JSON lines."""


def _sentence(highlight: str) -> str:
    joined = " ".join(highlight.split())
    return joined if joined.rstrip(CLOSING).endswith((".", "!", "?")) else f"{joined}."


# -- BBC articles with their first sentence as summary, one ``.summary`` file each, as in XSum (Narayan et al., 2018).
#
# A file has sections. Each begins with a line that has its name:
#
#     [SN]FIRST-SENTENCE[SN]
#     Cats are the new dogs.
#
#     [SN]RESTBODY[SN]
#     The BBC asked ten cats.

HEADING = re.compile(r"^\[(?:SN|XSUM)\]([A-Z-]+)\[(?:SN|XSUM)\]$", re.MULTILINE)
SUMMARIES = ("FIRST-SENTENCE", "INTRODUCTION")
ARTICLE = "RESTBODY"
BUTTONS = frozenset({
    "Share this with", "Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp", "Linkedin", "LinkedIn",
    "Copy this link", "These are external links and will open in a new window",
})  # fmt: skip
"""Lines of the web page that are not part of the article. The data set on the hub leaves them out too."""


def bbc_pair(text: str) -> Pair:
    r"""The pair of a BBC article: the target is its first sentence, the source its other text. Either may be empty.

    >>> bbc_pair("[SN]FIRST-SENTENCE[SN]\nA cat sat.\n\n[SN]RESTBODY[SN]\nEmail\nIt sat.\nIt ran.\n")
    Pair(source='It sat.\nIt ran.', target='A cat sat.', others=())
    """
    _, *parts = HEADING.split(text)
    sections = {name: _without_buttons(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    summary = next((sections[name] for name in SUMMARIES if name in sections), "")
    return Pair(sections.get(ARTICLE, ""), summary)


def _without_buttons(body: str) -> str:
    lines = (line.rstrip("\r") for line in body.split("\n"))
    return "\n".join(line for line in lines if line.strip() and line not in BUTTONS).strip()


ARTICLES = article_files([
    ArticleForm(STORY.ending, lambda text: backwards(STORY.pair(text)), STORY.mark, STORY.origin),
    ArticleForm(".summary", bbc_pair, "[SN]FIRST-SENTENCE[SN]", "XSum: github.com/EdinburghNLP/XSum"),
])  # fmt: skip
"""Reader of folders of articles to summarise, in the format of CNN/DailyMail or XSum."""
