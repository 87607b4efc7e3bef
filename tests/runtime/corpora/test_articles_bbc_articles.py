from __future__ import annotations

import json

import pytest

from nextword.runtime.corpora.articles import ARTICLES, bbc_pair
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.pairs import PairReading, Side, read_pairs

FILE = """[SN]URL[SN]
http://web.archive.org/web/1/news/{number}

[SN]TITLE[SN]
Cats

[SN]FIRST-SENTENCE[SN]
Cat {number} is a dog.

[SN]RESTBODY[SN]
Share this with
Email
The BBC asked cat {number}.

It said no.
"""


def read(path):
    shares = {"split_field": None, "validation_share": 0.2, "test_share": 0.3, "seed": 0}
    return read_pairs(path, PairReading(Side("source", None), Side("target", None), **shares, other=ARTICLES))


def articles(folder, count):
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number}.summary").write_text(FILE.format(number=number))
    return folder


def test_sections_become_a_pair():
    assert bbc_pair(FILE.format(number=7)) == Pair("The BBC asked cat 7.\nIt said no.", "Cat 7 is a dog.")
    assert bbc_pair(FILE.format(number=7).replace("SN]", "XSUM]").replace("FIRST-SENTENCE", "INTRODUCTION")) == Pair(
        "The BBC asked cat 7.\nIt said no.", "Cat 7 is a dog."
    )
    assert bbc_pair("anything else") == Pair("", "")


def test_the_published_list_says_which_part_an_article_is_in(tmp_path):
    articles(tmp_path / "bbc-summary-data", 6)
    parts = {"test": ["5"], "validation": ["4", "99"], "train": ["2", "0", "3"]}
    (tmp_path / "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json").write_text(json.dumps(parts))
    found = read(tmp_path)
    assert [pair.target for pair in found.train] == [f"Cat {number} is a dog." for number in (2, 0, 3)]
    assert [len(found.validation), len(found.test)] == [1, 1]
    assert found.split == ".summary files by lists, 1 listed ones missing"


def test_without_a_list_they_are_split_by_a_hash(tmp_path):
    found = read(articles(tmp_path / "all", 50))
    assert len(found.train) + len(found.validation) + len(found.test) == 50
    assert found.split == ".summary files by a hash of the source, 50/20/30 %"


def test_bad_folders(tmp_path):
    with pytest.raises(ValueError, match=r"github\.com/EdinburghNLP"):
        read(tmp_path)
    (tmp_path / "1.summary").write_text("<html>")
    with pytest.raises(ValueError, match=r"'\[SN\]FIRST-SENTENCE\[SN\]'"):
        read(tmp_path)
    articles(tmp_path, 3)
    (tmp_path / "lists.json").write_text('{"train": ["0"')
    with pytest.raises(ValueError, match=r"lists\.json' is not JSON .*"):
        read(tmp_path)
    (tmp_path / "lists.json").write_text('{"train": ["0"], "dev": ["1"], "test": ["44"]}')
    with pytest.raises(ValueError, match="validation"):
        read(tmp_path)
