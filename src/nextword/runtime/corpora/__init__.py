"""Readers of texts from files, folders, tables and data sets on the hub."""

from nextword.runtime.corpora.open import (
    Batch,
    Corpus,
    is_published,
    is_streamed,
    keeps_a_buffer,
    lines,
    open_corpus,
)
from nextword.runtime.corpora.packed import Digest, file_text, gathered, numbered_lines, plain_text
from nextword.runtime.corpora.part_names import (
    PARTS,
    is_json_lines,
    is_text,
    part_files,
    part_of,
    table_ending,
)
from nextword.runtime.corpora.row_files import JsonLine, json_lines, readable, table_rows

__all__ = [
    "PARTS",
    "Batch",
    "Corpus",
    "Digest",
    "JsonLine",
    "file_text",
    "gathered",
    "is_json_lines",
    "is_published",
    "is_streamed",
    "is_text",
    "json_lines",
    "keeps_a_buffer",
    "lines",
    "numbered_lines",
    "open_corpus",
    "part_files",
    "part_of",
    "plain_text",
    "readable",
    "table_ending",
    "table_rows",
]
