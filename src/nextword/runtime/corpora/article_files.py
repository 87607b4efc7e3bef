"""Articles with their summaries, a file each, in one folder; lists in it may say which of them is in which part.

Lists are as their data sets have them: text files with a URL or a name a line, whose own names say the part
(``all_train.txt``), or a JSON file ``{"train": [names], ...}``. A URL stands for the file that is named by its SHA-1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextword.runtime.corpora.files.packed import file_text
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.pairs import OtherFiles, PairParts, Reading, split_by_hash, with_text
from nextword.runtime.corpora.part_names import PARTS, TEXTS, part_files, part_of


@dataclass(frozen=True)
class ArticleForm:
    """How a file of one article is written.

    Attributes:
        ending: Of its name.
        pair: Makes a pair of its text, one side of which is empty where the file lacks it.
        mark: What every file has before its summary, for messages.
        origin: Which data set this is and where it is to be had, for messages.
    """

    ending: str
    pair: Callable[[str], Pair]
    mark: str
    origin: str

    def files(self, folder: Path) -> Iterator[Path]:
        """The files of a folder and its folders."""
        return folder.rglob(f"*{self.ending}")


def article_files(forms: Sequence[ArticleForm]) -> OtherFiles:
    """Such folders as what a task reads beside tables; the first form counts of which there is a file."""
    wanted = " or ".join(f"a folder with {form.ending} files ({form.origin})" for form in forms)

    def claims(path: Path) -> bool:
        return path.is_dir() and any(True for form in forms for _ in form.files(path))

    def read(path: Path, reading: Reading, where: str) -> PairParts:
        for form in forms if path.is_dir() else ():
            files = sorted(form.files(path))
            if files:
                return _parts(files, path, form, reading, where)
        endings = " or ".join(form.ending for form in forms)
        what = f"has no {endings} files" if path.is_dir() else f"is no .jsonl file and no folder with {endings} files"
        raise ValueError(
            f"{where}: '{path}' {what}. Give a .jsonl file, a folder with train.jsonl, validation.jsonl and test.jsonl,"
            f" or {wanted}."
        )

    return OtherFiles(read, wanted, claims)


def _parts(files: list[Path], folder: Path, form: ArticleForm, reading: Reading, where: str) -> PairParts:
    pairs = {file.name.removesuffix(form.ending): form.pair(file_text(file, where)) for file in files}
    if not any(pair.source and pair.target for pair in pairs.values()):
        raise ValueError(
            f"{where}: no line '{form.mark}' in any of the {len(files)} {form.ending} files, so there are no summaries"
        )
    listed = _listed_parts(folder, where)
    if listed is None:
        return split_by_hash(pairs.values(), reading, folder.name, f"{form.ending} files")
    there = {part: [pairs[name] for name in names if name in pairs] for part, names in listed.items()}
    both = {part: with_text(found) for part, found in there.items()}
    missing = sum(map(len, listed.values())) - sum(map(len, there.values()))
    return PairParts(
        both["train"],
        both["validation"],
        both["test"],
        source=folder.name,
        split=f"{form.ending} files by lists" + (f", {missing} listed ones missing" if missing else ""),
        empty=sum(map(len, there.values())) - sum(map(len, both.values())),
    )


def _listed_parts(folder: Path, where: str) -> dict[str, list[str]] | None:
    """The names of each part; None where no list is there."""
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
        raise ValueError(f"{where}: '{file}' is not JSON ({fault}); fetch it anew") from None
    lists = content.items() if isinstance(content, dict) else ()
    return {part: [str(name) for name in names] for word, names in lists if (part := part_of(word)) is not None}


def _name(line: str) -> str:
    entry = line.strip()
    return hashlib.sha1(entry.encode(), usedforsecurity=False).hexdigest() if "://" in entry else entry
