"""Where text comes from: files, folders, tables and data sets of the hub. No model, nothing else of ours."""

from nextword.runtime.corpora.open import (
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
    split_named,
)
from nextword.runtime.corpora.packed import Digest, file_place, file_text, gathered, numbered_lines
from nextword.runtime.corpora.part_names import (
    PARTS,
    file_names,
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
    "file_names",
    "file_place",
    "file_text",
    "gathered",
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
    "table_rows",
]
