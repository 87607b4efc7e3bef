"""News stories with highlights, a file each, as the DeepMind Q&A data set has them (Hermann et al., NeurIPS 2015).

A file is the article, then for each highlight a line ``@highlight``, an empty line and the highlight.
"""

from __future__ import annotations

from nextword.runtime.corpora.article_files import ArticleForm, article_files
from nextword.runtime.corpora.gap_sentences import Pair

ENDING = ".story"
MARK = "@highlight"
CLOSING = "\"'\u2019\u201d)]"
"""What may stand after the mark that ends a sentence."""


def story_pair(text: str) -> Pair:
    r"""The highlights, as sentences, and the article; either may be empty, as it is in some stories of that data set.

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
    """The pair with its sides exchanged.

    >>> backwards(Pair("short", "long"))
    Pair(source='long', target='short', others=())
    """
    return Pair(pair.target, pair.source)


STORY = ArticleForm(ENDING, story_pair, MARK, "CNN/DailyMail: github.com/abisee/cnn-dailymail")
"""Highlights first, for tasks that write articles."""

STORIES = article_files([STORY])
"""Such folders as what a task reads beside JSON lines."""


def _sentence(highlight: str) -> str:
    joined = " ".join(highlight.split())
    return joined if joined.rstrip(CLOSING).endswith((".", "!", "?")) else f"{joined}."
