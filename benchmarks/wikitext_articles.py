"""Articles of WikiText, as JSON lines with ``text``: each by itself, or all as one text.

In order to see what a memory is worth that ends with each article:

    python benchmarks/wikitext_articles.py wikitext-2/test.txt --first 8 --out test-articles.jsonl
    python benchmarks/wikitext_articles.py wikitext-2/test.txt --first 8 --together --out test-one.jsonl

Texts are those of ``nextword.runtime.corpora.texts.articles``.
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
    options.add_argument("--first", type=int, help="only so many articles")
    options.add_argument("--together", action="store_true", help="as one text")
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args(argv)
    found = articles(given.text.read_text(encoding="utf-8"))[: given.first]
    texts = ["".join(found)] if given.together else found
    given.out.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), "utf-8")
    print(f"{len(texts)} texts: {given.out}")


if __name__ == "__main__":
    main()
