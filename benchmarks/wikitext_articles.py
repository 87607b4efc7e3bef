"""Writes articles of WikiText as JSON lines with ``text``: one line per article, or all articles as one text.

Use it to measure a cache that is cleared at the end of each article:

    python benchmarks/wikitext_articles.py wikitext-2/test.txt --first 8 --out test-articles.jsonl
    python benchmarks/wikitext_articles.py wikitext-2/test.txt --first 8 --together --out test-one.jsonl

The articles are those of ``nextword.runtime.corpora.texts.articles``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from nextword.runtime.corpora.texts import articles


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the file."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("text", type=Path)
    options.add_argument("--first", type=int, help="number of articles, from the first")
    options.add_argument("--together", action="store_true", help="write all articles as one text")
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args(argv)
    found = articles(given.text.read_text(encoding="utf-8"))[: given.first]
    texts = ["".join(found)] if given.together else found
    given.out.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    print(f"{len(texts)} texts: {given.out}")


if __name__ == "__main__":
    main()
