"""BBC articles with a first sentence as summary, a ``.summary`` file each, as XSum has them (Narayan et al., 2018).

A file is in sections, each after a line with its name:

    [SN]FIRST-SENTENCE[SN]
    Cats are the new dogs.

    [SN]RESTBODY[SN]
    The BBC asked ten cats.
"""

from __future__ import annotations

import re

from nextword.runtime.corpora.article_files import ArticleForm, article_files
from nextword.runtime.corpora.gap_sentences import Pair
from nextword.runtime.corpora.stories import STORY, backwards

HEADING = re.compile(r"^\[(?:SN|XSUM)\]([A-Z-]+)\[(?:SN|XSUM)\]$", re.MULTILINE)
SUMMARIES = ("FIRST-SENTENCE", "INTRODUCTION")
ARTICLE = "RESTBODY"
BUTTONS = frozenset({
    "Share this with", "Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp", "Linkedin", "LinkedIn",
    "Copy this link", "These are external links and will open in a new window",
})  # fmt: skip
"""Lines of the web page, which are no text of the article; the data set of the hub leaves them out too."""


def bbc_pair(text: str) -> Pair:
    r"""The article and its first sentence; either may be empty.

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
"""Folders of articles that are to be summarised: those of CNN/DailyMail and those of XSum."""
