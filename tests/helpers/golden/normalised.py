"""Texts and records without what is another each time a command runs, or on each machine.

Replaced by one word (or the number 1) are, and nothing else:

- seconds, bytes of memory, and tokens or texts a second: of computing, they are another in every run;
- dates, and what says who ran it where: folder, host, process, processor, platform, versions, commit, threads;
- rules of lines and runs of spaces in printed tables, whose lengths follow from the width of such numbers.

Left out are printed lines about a stage and its seconds: some commands print only those that took long.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from collections.abc import Iterable
from typing import Any

import nextword as nw

WORD = "ANOTHER-EACH-TIME"
MEASURED = {"ms_per_step", "peak_memory_mib", "train_seconds", "seconds", "tokens_per_second"}
"""Keys of records whose numbers are measured by the clock, or of the process's memory."""
FACTS = {
    "environment", "date", "commit", "platform", "processor", "python", "torch", "transformers", "nextword",
    "transformers_version", "nextword_version", "peft_version",
}  # fmt: skip
"""Keys of records about the machine."""
VERSIONS = sorted(
    {importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers", "datasets", "numpy", "peft")}
    | {platform.python_version(), platform.platform()},
    key=len,
    reverse=True,
)
DATES = re.compile(r"20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z| UTC)?)?")
COMMITS = re.compile(r"\b[0-9a-f]{40}(-dirty)?\b")
TIMES = re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(s|ms|µs|sec|seconds?|minutes?|MiB|GiB|it/s|tokens/s|ms/step)\b")
STAGES = re.compile(rf"^[^\n]*[:,] {WORD}\n", re.MULTILINE)
RULES = re.compile(r"[ ─━│┃]{2,}")


def plain(text: str, folders: Iterable[str] = ()) -> str:
    """A text that is the same each time."""
    for folder in folders:
        text = text.replace(folder, WORD)
    text = re.sub(rf"\b{re.escape(nw.__version__)}\b", WORD, text)
    for version in VERSIONS:
        text = text.replace(version, WORD)
    for pattern in (DATES, COMMITS, TIMES):
        text = pattern.sub(WORD, text)
    return text


def printed(text: str, folders: Iterable[str] = ()) -> str:
    """What a command printed: also without the widths of tables and bars, and without the seconds of stages."""
    return RULES.sub(" ", STAGES.sub("", plain(text, folders)))


def record(content: Any, folders: Iterable[str] = ()) -> Any:
    """A record of JSON whose classes still read it: numbers stay numbers, texts stay texts."""
    if isinstance(content, dict):
        return {key: _value(key, inner, folders) for key, inner in content.items()}
    if isinstance(content, list):
        return [record(inner, folders) for inner in content]
    return plain(content, folders) if isinstance(content, str) else content


def _value(key: str, content: Any, folders: Iterable[str]) -> Any:
    if key in FACTS and isinstance(content, dict):
        return {name: _value("date", inner, folders) for name, inner in content.items()}
    if key in FACTS and isinstance(content, str):
        return WORD
    if key in FACTS | MEASURED and isinstance(content, float | int) and not isinstance(content, bool):
        return type(content)(1)
    return record(content, folders)


def records(text: str, folders: Iterable[str] = ()) -> str:
    """A file of JSON, or of JSON lines; a value a line, so that the first difference says where it is."""
    try:
        return json.dumps(record(json.loads(text), folders), indent=1, ensure_ascii=False)
    except json.JSONDecodeError:
        lines = [json.dumps(record(json.loads(line), folders), ensure_ascii=False) for line in text.splitlines()]
        return "\n".join(lines)
