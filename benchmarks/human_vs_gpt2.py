"""Writes samples files from human texts and texts of GPT-2 XL with the same openings.

The data is a JSON file ``{"original": [...], "sampled": [...]}`` whose texts begin with the same opening. The opening
becomes the prompt. Both continuations are cut to their first ``--tokens`` tokens, because most metrics depend on text
length. Pairs with a shorter text are left out and counted.

    python benchmarks/human_vs_gpt2.py DATA.json --tokenizer GPT2_FOLDER --out runs/human/gpt2-xl.jsonl
    nextword evaluate runs/human/gpt2-xl.jsonl --tokenizer runs/human/tokenizer --out runs/human

The tokenizer is saved beside the samples, in a form that any program can load.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, GPT2TokenizerFast, PreTrainedTokenizerBase


def tokenizer_of(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder; one with vocab.json and merges.txt only is GPT-2's."""
    if (folder / "tokenizer.json").exists() or (folder / "tokenizer_config.json").exists():
        return AutoTokenizer.from_pretrained(folder)
    return GPT2TokenizerFast.from_pretrained(folder)


def common_opening(first: str, second: str) -> str:
    """The longest common beginning that ends before a space in both."""
    length = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    while length and not (first[length : length + 1].isspace() and second[length : length + 1].isspace()):
        length -= 1
    return first[:length]


def samples(texts: dict[str, list[str]], tokenizer: Any, tokens: int) -> tuple[list[dict[str, Any]], int]:
    """The samples, and how many pairs were too short."""
    kept, short = [], 0
    for number, (human, model) in enumerate(zip(texts["original"], texts["sampled"], strict=True)):
        prompt = common_opening(human, model)
        cut = [tokenizer(text[len(prompt) :], verbose=False)["input_ids"][:tokens] for text in (human, model)]
        if min(map(len, cut)) < tokens:
            short += 1
            continue
        kept.append(
            {
                "id": number,
                "prompt": prompt,
                "text": tokenizer.decode(cut[1]),
                "reference": tokenizer.decode(cut[0]),
                "token_ids": cut[1],
                "reference_token_ids": [cut[0]],
            }
        )
    return kept, short


def main() -> None:
    """Reads, cuts and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of the tokenizer")
    parser.add_argument("--tokens", type=int, default=100, help="length of every continuation")
    parser.add_argument("--out", type=Path, required=True, help="samples file to write")
    given = parser.parse_args()
    texts = json.loads(given.data.read_text(encoding="utf-8"))
    tokenizer = tokenizer_of(given.tokenizer)
    kept, short = samples(texts, tokenizer, given.tokens)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept), encoding="utf-8")
    tokenizer.save_pretrained(given.out.parent / "tokenizer")
    print(f"{len(kept)} samples in {given.out}; {short} pairs have fewer than {given.tokens} tokens and are left out")


if __name__ == "__main__":
    main()
