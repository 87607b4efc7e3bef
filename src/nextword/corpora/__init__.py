"""Where text comes from: files, folders, tables and data sets of the hub. No model, nothing else of ours."""

from nextword.corpora.jsonl import Digest, JsonLine, json_lines, numbered_lines
from nextword.corpora.open import (
    Batch,
    Corpus,
    is_hub_name,
    is_published,
    is_streamed,
    keeps_a_buffer,
    lines,
    of_files,
    open_corpus,
    published,
    readable,
    split_named,
)
from nextword.corpora.part_names import PARTS, file_names, is_json_lines, is_text, part_files, part_of, table_ending

__all__ = [
    "PARTS",
    "Batch",
    "Corpus",
    "Digest",
    "JsonLine",
    "file_names",
    "is_hub_name",
    "is_json_lines",
    "is_published",
    "is_streamed",
    "is_text",
    "json_lines",
    "keeps_a_buffer",
    "lines",
    "numbered_lines",
    "of_files",
    "open_corpus",
    "part_files",
    "part_of",
    "published",
    "readable",
    "split_named",
    "table_ending",
]
