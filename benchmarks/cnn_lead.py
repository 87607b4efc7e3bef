"""Writes samples files of two summarisers without a model: an article's first three sentences, or three random ones.

The input has pairs of articles and highlights: one JSON object per line with ``id``, ``split``, ``article``,
``highlights`` and ``bullets``. A sentence ends at a full stop, question mark or exclamation mark before a space and the
beginning of a sentence. In the references, each bullet is one sentence on its own line, as ROUGE-Lsum expects.

    python benchmarks/cnn_lead.py PAIRS.jsonl --split test --out runs/cnn
    nextword evaluate runs/cnn/lead-3.jsonl runs/cnn/random-3.jsonl --metrics rouge --metrics bleu --metrics cider
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path
from typing import Any

_END = re.compile(r"([.!?][\"'’”)]*)\s+(?=[\"'‘“(`]*[A-Z0-9])")


def sentences(text: str) -> list[str]:
    """The sentences of ``text``.

    >>> sentences("He left. She stayed! Why? 3 dogs barked")
    ['He left.', 'She stayed!', 'Why?', '3 dogs barked']
    """
    return [part.strip() for part in _END.sub(r"\1\n", text).splitlines() if part.strip()]


def sample(pair: dict[str, Any], chosen: list[str]) -> dict[str, Any]:
    """One line of a samples file."""
    reference = "\n".join(pair["bullets"] or sentences(pair["highlights"]))
    return {"id": pair["id"], "source": pair["article"], "text": "\n".join(chosen), "reference": reference}


def main() -> None:
    """Reads, chooses and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the samples files")
    parser.add_argument("--split", help="only pairs of this split")
    given = parser.parse_args()
    with given.pairs.open(encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    pairs = [pair for pair in pairs if given.split in (None, pair["split"])]
    chance = random.Random(0)
    split = [sentences(pair["article"]) for pair in pairs]
    choices = {
        "lead-3": [found[:3] for found in split],
        "random-3": [
            [found[i] for i in sorted(chance.sample(range(len(found)), min(3, len(found))))] for found in split
        ],
    }
    given.out.mkdir(parents=True, exist_ok=True)
    for name, chosen in choices.items():
        lines = [json.dumps(sample(*one), ensure_ascii=False) for one in zip(pairs, chosen, strict=True)]
        (given.out / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(pairs)} articles, {len(choices)} summarisers in {given.out}")


if __name__ == "__main__":
    main()
